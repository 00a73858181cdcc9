"""Mail through Microsoft Graph: a refresh token in a file, at most four requests at once."""
