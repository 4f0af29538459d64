"""Small wrong patches of the package, each of which some tests must notice."""

from dataclasses import dataclass

CONTRACTS = (
    "tests/values/test_contract.py",
    "tests/imputers/test_contract.py",
    "tests/estimators/test_contract.py",
)
VALUES, IMPUTERS, ESTIMATORS = CONTRACTS


@dataclass(frozen=True)
class Fault:
    """A replacement in one file.

    Attributes:
        name: what is wrong.
        module: path of the source inside the package.
        right: text that occurs once.
        wrong: what takes its place.
        tests: files or tests of which one at least must fail.
    """

    name: str
    module: str
    right: str
    wrong: str
    tests: tuple[str, ...]


FAULTS = (
    Fault(
        "a wrong Shapley weight",
        "posets.py",
        "math.factorial(s) * math.factorial(players - s - 1) / orders",
        "math.factorial(s) * math.factorial(players - s) / orders / players",
        (ESTIMATORS,),
    ),
    Fault(
        "a wrong weight of the regression",
        "estimators/pairs.py",
        "n / (size * (n - size) * math.comb(n, size))",
        "n / (size * math.comb(n, size))",
        ("tests/estimators/test_kernel.py",),
    ),
    Fault(
        "complements that are the coalitions again",
        "coalitions.py",
        "torch.stack((mask, ~mask), dim=-2)",
        "torch.stack((mask, mask), dim=-2)",
        ("tests/estimators/test_coalition.py",),
    ),
    Fault(
        "a coalition that holds the newcomer",
        "coalitions.py",
        "        return arrival < newcomer\n",
        "        return arrival <= newcomer\n",
        ("tests/test_coalitions.py",),
    ),
    Fault(
        "padding in a coalition",
        "coalitions.py",
        "present_players(self.players, counts, device), torch.nan)",
        "present_players(self.players, counts, device), torch.inf)",
        ("tests/test_laws.py",),
    ),
    Fault(
        "cells without players that count as cells",
        "laws.py",
        "lot.where(held, -1).argmax",
        "lot.argmax",
        ("tests/test_laws.py",),
    ),
    Fault(
        "rows that end at the first number that is that of padding",
        "players.py",
        "(used * torch.arange(1, used.shape[1] + 1, device=x.device)).amax(1)",
        "used.long().cumprod(1).sum(1)",
        ("tests/test_players.py",),
    ),
    Fault(
        "groups that reveal padding",
        "values/grouped.py",
        "mask.all(2, keepdim=True)",
        "mask.any(2, keepdim=True)",
        ("tests/values/test_grouped.py",),
    ),
    Fault(
        "superpixels of a picture seen before",
        "segmentation.py",
        "key = content_key(picture)",
        'key = b""',
        ("tests/test_segmentation.py",),
    ),
    Fault(
        "standard errors over permutations, not over pairs",
        "estimators/permutation.py",
        "self.plain.add(some, samples.mean(2), spread)",
        "self.plain.add(some, samples[:, :, 0], spread)",
        ("tests/estimators/test_permutation.py",),
    ),
    Fault(
        "draws that all pairs of orders share",
        "estimators/permutation.py",
        "keys = _random.fold(self.keys, torch.tensor(numbers))",
        "keys = self.keys.expand(-1, len(numbers))",
        ("tests/estimators/test_permutation.py",),
    ),
    Fault(
        "orders of a graph that are not drawn uniformly",
        "posets.py",
        "until = (self._after[target] / self._after[source]).cumsum(0)",
        "until = (1 / (source[:, None] == source).sum(1)).double().cumsum(0)",
        ("tests/test_causal_graphs.py",),
    ),
    Fault(
        "draws shared by coalitions whose earlier causes differ",
        "imputers/causal.py",
        "(given | self.above[component]) & mask[where]",
        "given & mask[where]",
        ("tests/test_causal_graphs.py",),
    ),
    Fault(
        "the base of the first row for all",
        "estimators/evaluator.py",
        "self.base = self._anchor(self.value.base)",
        "self.base = self._anchor(self.value.base)[:1].expand(len(self.x), -1).clone()",
        (ESTIMATORS,),
    ),
    Fault(
        "probabilities by way of single precision",
        "models/model.py",
        'narrow = torch.float32 if x.device.type == "mps" else raw.dtype',
        "narrow = torch.float32\n        raw = raw.float()",
        ("tests/models/test_predictor.py",),
    ),
    Fault(
        "columns in the order of the frame, not of the fit",
        "models/rows.py",
        "return frame if order == given.columns else given.select(order).to_native()",
        "return frame",
        ("tests/models/test_predictor.py",),
    ),
    Fault(
        "the margin of two classes for their probabilities",
        "models/boosting.py",
        'first = 1 - raw if self.returns == "probabilities" else np.zeros_like(raw)',
        "first = np.zeros_like(raw)",
        ("tests/models/test_kinds.py",),
    ),
    Fault(
        "zero for the players that a row lacks",
        "estimators/ragged.py",
        "value=nan)",
        "value=0.0)",
        (ESTIMATORS,),
    ),
    Fault(
        "a missing anchor",
        "values/base.py",
        "values = torch.where(full[..., None], self.prediction(x)[:, None], values)",
        "values = values + 0.0",
        (VALUES,),
    ),
    Fault(
        "variance at an anchor",
        "values/base.py",
        "variance = torch.where(proper[..., None], variance, 0.0)",
        "variance = variance + 0.0",
        (VALUES,),
    ),
    Fault(
        "draws that do not depend on the key",
        "imputers/marginal.py",
        "_random.permuted(keys, draws, len(self.reference))",
        "_random.permuted(torch.zeros_like(keys), draws, len(self.reference))",
        (IMPUTERS,),
    ),
    Fault(
        "conditional means that leave out what is known",
        "imputers/gaussian.py",
        "known = torch.where(present, self._standardised(x), 0)",
        "known = torch.zeros_like(x)",
        ("tests/imputers/test_gaussian.py",),
    ),
    Fault(
        "absent features that are read",
        "imputers/gaussian.py",
        "known = torch.where(late, 0, innovations[:, None, :, -1])",
        "known = innovations[:, None, :, -1].expand(late.shape)",
        (IMPUTERS,),
    ),
    Fault(
        "padding that is imputed",
        "imputers/base.py",
        "return known | (self.players.owners(x) < 0)[:, None]",
        "return known",
        ("tests/imputers/test_tokens.py",),
    ),
    Fault(
        "absent pixels that a convolution sees",
        "vae/networks.py",
        "torch.cat((x * present.repeat(1, copies, *(1,) * (x.ndim - 2)), present), dim=1)",
        "torch.cat((x, present), dim=1)",
        ("tests/vae/test_networks.py",),
    ),
    Fault(
        "an absent player in the first layer",
        "nn.py",
        "inputs = torch.cat((x[:, None] * by_element, present), dim=-1)",
        "inputs = torch.cat((x[:, None].expand(-1, mask.shape[1], -1), present), dim=-1)",
        ("tests/test_nn.py",),
    ),
    Fault(
        "swapped classes",
        "spaces.py",
        "log_p[..., 1:] - log_p[..., :1]",
        "log_p[..., :1] - log_p[..., 1:]",
        ("tests/test_spaces.py",),
    ),
    Fault(
        "a wrong sign in the log-ratio basis",
        "simplex/geometry.py",
        "(first / r - second / s) * (r * s / (r + s)).sqrt()",
        "(second / s - first / r) * (r * s / (r + s)).sqrt()",
        ("tests/simplex/test_geometry.py",),
    ),
    Fault(
        "squared errors that keep the variance of the draws",
        "metrics.py",
        "debiased=mse - variance.mean().item()",
        "debiased=mse",
        ("tests/test_metrics.py",),
    ),
    Fault(
        "normal quantiles where samples are few",
        "learning_error.py",
        "freedom.clamp(min=1).double().numpy()",
        "freedom.clamp(min=1e9).double().numpy()",
        ("tests/estimators/test_intervals.py",),
    ),
    Fault(
        "one seed for all blocks",
        "streaming.py",
        "_random.fold(torch.tensor(self.seed), number)",
        "_random.fold(torch.tensor(self.seed), 0)",
        ("tests/io/test_streaming.py",),
    ),
    Fault(
        "a surrogate that is taken for any model",
        "surrogate/fit.py",
        "if gap := disagreement(",
        "if gap := 0.0 * disagreement(",
        ("tests/surrogate/test_fit.py",),
    ),
    Fault(
        "a bound without its prior",
        "vae/network.py",
        "to_prior = beta * kl_divergence(q, _standard(q))",
        "to_prior = 0 * kl_divergence(q, _standard(q))",
        ("tests/vae/test_vae.py",),
    ),
)
