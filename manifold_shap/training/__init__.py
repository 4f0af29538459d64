"""How networks are trained: options, batches, the loop. No science lives here."""
