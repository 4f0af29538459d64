"""A small transformer that reads texts, as rows of token ids that are padded by 0."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

_UNKNOWN = 1
_BATCH, _RATE, _DECAY = 64, 5e-3, 0.1


class Reader(nn.Module):
    """Attention over the tokens of a text, whose mean is classified; padding is ignored.

    >>> Reader(vocabulary=10, length=4)(torch.tensor([[3, 5, 0, 0], [0, 0, 0, 0]])).shape
    torch.Size([2, 2])
    """

    def __init__(self, vocabulary: int, length: int, width: int = 64, dropout: float = 0.3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.position = nn.Parameter(0.02 * torch.randn(length, width))
        self.layer = nn.TransformerEncoderLayer(
            width, 2, 2 * width, dropout, batch_first=True, norm_first=True
        )
        self.dropout, self.last = nn.Dropout(dropout), nn.Linear(width, 2)
        with torch.no_grad():
            self.embedding.weight *= 0.3

    def forward(self, tokens: Tensor) -> Float[Tensor, "rows 2"]:
        tokens = tokens.long()
        used = tokens != 0
        h = self.dropout(self.embedding(tokens) + self.position)
        # Of a text without tokens all are attended to, and none is counted.
        h = self.layer(h, src_key_padding_mask=~used & used.any(1, keepdim=True))
        return self.last((h * used[..., None]).sum(1) / used.sum(1, keepdim=True).clamp(min=1))


def train_reader(
    x: Float[Tensor, "rows length"],
    y: Int64[Tensor, " rows"],
    vocabulary: int,
    epochs: int,
    seed: int,
    hidden_share: float = 0.0,
) -> Reader:
    """A reader of these texts and their labels.

    In training a share of the tokens may be hidden, as unknown ones, so that the model knows what
    to make of these.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Reader(vocabulary, x.shape[1])
        optimizer = torch.optim.AdamW(model.parameters(), _RATE, weight_decay=_DECAY)
        steps = epochs * -(-len(x) // _BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, steps)
        for _ in range(epochs):
            for rows in torch.randperm(len(x)).split(_BATCH):
                some = x[rows]
                unknown = (torch.rand(some.shape) < hidden_share) & (some > 0)
                loss = F.cross_entropy(model(some.where(~unknown, _UNKNOWN)), y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
    return model.eval()
