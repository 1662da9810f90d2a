"""From a table to a picture: reading, choices, the unfolding, what is wrong with it, one page."""
