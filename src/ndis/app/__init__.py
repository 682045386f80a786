"""``ndis app``: from a file to a publication in the browser, a thin front to the command line."""
