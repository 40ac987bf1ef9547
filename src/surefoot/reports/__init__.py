"""Self-contained pages, figures and numbers as people write them."""
