"""From a directory to parsed tables of one job: discovery, parsing, cache, rank map."""
