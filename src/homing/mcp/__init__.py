"""Tools for agents (Model Context Protocol): dead letters to read and, if allowed, to replay."""
