"""Tables and figures of the papers and of our documentation, measured again by a command."""
