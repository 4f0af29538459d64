"""
Words of a text
===============

Each word is coloured by its Shapley value for "good". The model adds up opinions of words. Absent
words become a token that it does not know, and the base is of a text of such tokens alone. Nobody
writes these texts: masks, like deletions, are off the manifold. A surrogate learns what the model
predicts on average instead, see the page on text.
"""

import torch

import manifold_shap as ms

texts = [
    "a dull film with a brilliant cast",
    "brilliant and moving",
    "not brilliant and rather dull",
]
vocabulary = ms.text.Vocabulary.fit(texts)
x = vocabulary.encode(texts, length=8)
opinions = {"brilliant": 2.0, "moving": 1.0, "dull": -2.0, "not": -1.5}
weights = torch.tensor([opinions.get(token, 0.0) for token in vocabulary.tokens])


def model(ids):
    good = torch.sigmoid(weights[ids.long()].sum(1))
    return torch.stack((1 - good, good), 1)


players = ms.Players.tokens(8, padding=0)
unknown = 1  # the number of tokens that the model does not know
masked = ms.imputers.MaskTokenImputer(unknown, players)
value = ms.imputed_value(ms.as_model(model, x, classes=["bad", "good"]), masked)
explanation = ms.exact_shapley(value, x)
words = vocabulary.decode(x)
explanation.plot.text(words, output="good")

# %%
# Means of each word over all texts:

explanation.plot.bar(output="good", signed=True, tokens=words)
