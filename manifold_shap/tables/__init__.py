"""Tables: the cells of a frame as codes, and how they are encoded as rows of numbers."""
