"""What the paper claims of each item (`<notebook>.toml`), and which numbers decide it (`<notebook>.py`)."""
