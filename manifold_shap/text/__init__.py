"""Texts: as rows of token ids, and their words and sentences as groups of tokens."""

from manifold_shap.text.vocabulary import Vocabulary, word_maps

__all__ = ["Vocabulary", "word_maps"]


def __dir__() -> list[str]:
    return __all__
