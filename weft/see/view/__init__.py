"""The graph in the browser: the page, what it shows, and the server behind it."""
