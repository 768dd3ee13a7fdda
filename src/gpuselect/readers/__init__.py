"""The only modules that read files."""
