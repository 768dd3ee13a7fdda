"""Answers as text: terminal, Markdown, HTML, JSON and CSV. Nothing here computes an estimate."""
