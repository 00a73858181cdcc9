"""From a request to a stored delivery: checked, frozen, identified, admitted."""
