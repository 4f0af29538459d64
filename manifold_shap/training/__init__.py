"""Lightning shells: how classifiers and surrogates are trained. No science lives here."""
