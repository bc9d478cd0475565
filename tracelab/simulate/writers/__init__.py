"""What the simulated machines leave behind: files of several formats, each with its own machine's clock."""
