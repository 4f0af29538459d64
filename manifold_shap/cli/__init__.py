"""What the two commands do, as functions of plain settings."""
