"""Pages of docs/ that show what commands print: they print it still. What the code lists is in tests/test_reference."""
