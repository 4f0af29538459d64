"""Imputes by a finite mixture: within a component numbers are normal, and categories independent.

p(x) = Σ_k w_k N(z; μ_k, Σ_k) Π_j θ_kj(l_j), where z are normal scores of numbers and l_j levels of
categories, see `levels`. So is every conditional: x_S says how likely each component is, and within
a component z_{S̄} is normal given z_S, and l_{S̄} independent of x_S.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from manifold_shap import _random
from manifold_shap._checks import check_coalitions, check_rows, check_seed, check_whole
from manifold_shap._messages import UnfitError
from manifold_shap.coalitions import Coalitions, distinct_coalitions
from manifold_shap.imputers.base import Completions, Imputer, Mask, Rows
from manifold_shap.imputers.levels import Category, Numbers, split
from manifold_shap.players import Players

# Numbers of components that are tried, as long as each has so many rows.
_COMPONENTS = (1, 2, 4, 8, 16, 32, 64)
_ROWS_PER_COMPONENT = 10
# Rows below which components are chosen by cross-validation, its folds, and the share held out.
_FEW_ROWS, _FOLDS, _HELD_OUT = 1000, 5, 0.15
# Rows on which components are chosen, at most.
_MOST_ROWS = 10_000
# EM ends after so many steps, or when a step gains less log-likelihood per row.
_MOST_STEPS, _LEAST_GAIN = 60, 1e-4
# Rows that pooled covariances, per number, and pooled shares count as in each component.
_PRIOR_ROWS, _PRIOR_COUNT = 1.0, 2.0
# Numbers are independent within components where fewer rows have them, or more patterns occur.
_LEAST_SHARE, _MOST_PATTERNS = 0.2, 32
# A ridge on covariances, in units of normal scores.
_RIDGE = 1e-6
# Elements of matrices that are held at a time: 64 MiB.
_MOST_ELEMENTS = 2**23
# Streams of random numbers.
_COMPONENT, _LEVEL = 201, 202
_LOG_2_PI = math.log(2 * math.pi)


class _Split(NamedTuple):
    """Rows as levels and scores.

    Attributes:
        labels: of each category, `[rows, members]`.
        levels: one-hot, those of all categories side by side, `[rows, levels]`.
        joint: scores of numbers that are normal together `[rows, joint]`, 0 where there are none.
        alone: those of numbers that are independent within a component.
        has_joint, has_alone: whether there is a number.
    """

    labels: list[Tensor]
    levels: Tensor
    joint: Tensor
    alone: Tensor
    has_joint: Tensor
    has_alone: Tensor

    def of(self, rows: Tensor) -> "_Split":
        return _Split([each[rows] for each in self.labels], *(each[rows] for each in self[1:]))


class _Part(NamedTuple):
    """Some pairs of a row and a coalition.

    Attributes:
        pair, row: their numbers, and those of their rows.
        log_joint: log w_k p_k(x_S), `[pairs, K]`.
        matching: of each category, which levels agree with what is known of it.
        given: which scores are known.
        precision: Σ_SS⁻¹ of each pattern that occurs, and each component.
        place: of the pattern of each pair.
    """

    pair: Tensor
    row: Tensor
    log_joint: Tensor
    matching: list[Tensor]
    given: Tensor
    precision: Tensor
    place: Tensor


class _Law(nn.Module):
    """The parameters of a mixture of K components.

    Attributes:
        log_weights: `[K]`.
        log_shares: of the levels of all categories side by side, `[K, levels]`.
        mean, covariance: of numbers that are normal together, `[K, joint]`, `[K, joint, joint]`.
        mean_alone, variance_alone: of the others, `[K, alone]`.
    """

    def __init__(self, components: int, levels: Sequence[int], joint: int, alone: int) -> None:
        super().__init__()
        self.levels = list(levels)
        weights = torch.full((components,), -math.log(components), dtype=torch.float64)
        identity = torch.eye(joint, dtype=torch.float64).repeat(components, 1, 1)
        self.log_weights: Tensor = nn.Buffer(weights)
        self.log_shares: Tensor = nn.Buffer(weights.new_zeros(components, sum(levels)))
        self.mean: Tensor = nn.Buffer(weights.new_zeros(components, joint))
        self.covariance: Tensor = nn.Buffer(identity)
        self.mean_alone: Tensor = nn.Buffer(weights.new_zeros(components, alone))
        self.variance_alone: Tensor = nn.Buffer(weights.new_ones(components, alone))

    def __len__(self) -> int:
        return len(self.log_weights)

    def factors(
        self, known: Bool[Tensor, "patterns joint"]
    ) -> tuple[Float64[Tensor, "patterns components joint joint"], Float64[Tensor, "..."]]:
        """Σ_SS⁻¹ of known numbers, zero elsewhere, and log det Σ_SS, of each component."""
        both = known[:, None, :, None] & known[:, None, None]
        identity = torch.eye(known.shape[1], dtype=torch.float64, device=known.device)
        factor = torch.linalg.cholesky(torch.where(both, self.covariance, identity))
        log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return torch.where(both, torch.cholesky_inverse(factor), 0), log_det

    def log_alone(self, rows: _Split) -> Float64[Tensor, "rows alone components"]:
        """Log-densities of numbers that are independent within a component, 0 of none."""
        mean, variance = self.mean_alone.mT, self.variance_alone.mT
        squared = (rows.alone[..., None] - mean).square() / variance
        return -0.5 * (squared + variance.log() + _LOG_2_PI) * rows.has_alone[..., None]

    def log_joint(
        self, rows: _Split
    ) -> tuple[Float64[Tensor, "rows components"], list[tuple[Tensor, Tensor, Tensor]]]:
        """log w_k p_k(x), and of each pattern of numbers its rows and what is expected of these.

        That is E[z - μ_k | x], `[components, rows, joint]`, and Cov[z | x].
        """
        found = self.log_weights + rows.levels @ self.log_shares.mT + self.log_alone(rows).sum(1)
        patterns, which = distinct_coalitions(rows.has_joint)
        expected = []
        for number, (known, precision, log_det) in enumerate(
            zip(patterns, *self.factors(patterns), strict=True)
        ):
            some = (which == number).nonzero()[:, 0]
            deviation = (rows.joint[some] - self.mean[:, None]) * known
            weighted = deviation @ precision
            squared = (weighted * deviation).sum(-1).mT
            found[some] -= 0.5 * (squared + log_det + known.sum() * _LOG_2_PI)
            if known.all():
                expected.append((some, deviation, torch.zeros_like(self.covariance)))
                continue
            conditional = self.covariance - self.covariance @ precision @ self.covariance
            expected.append((some, weighted @ self.covariance, conditional))
        return found, expected

    def climb(self, rows: _Split, posterior: Tensor | None = None) -> "_Law":
        """Maximise the likelihood by EM, from these responsibilities or from where it is."""
        shares = rows.levels.mean(0) + 1 / len(rows.levels)
        sums = torch.cat(
            [own.sum().expand(len(own)) for own in shares.split(self.levels)] or [shares]
        )
        last = -math.inf
        for step in range(_MOST_STEPS):
            log_joint, expected = self.log_joint(rows)
            if posterior is None or step > 0:
                total = log_joint.logsumexp(1)
                posterior = (log_joint - total[:, None]).exp()
                value = total.mean().item()
                if step > 2 and value - last < _LEAST_GAIN:
                    break
                last = value
            self._maximise(rows, posterior, expected, shares / sums)
        return self

    def _maximise(
        self, rows: _Split, posterior: Tensor, expected: list[Any], shares: Tensor
    ) -> None:
        count = posterior.sum(0)
        self.log_weights = ((count + 1) / (len(posterior) + len(self))).log()
        levels = posterior.mT @ rows.levels + _PRIOR_COUNT * shares
        self.log_shares = (levels / (count[:, None] + _PRIOR_COUNT)).log()
        # Numbers that are normal together: moments around the mean that was.
        first, second = torch.zeros_like(self.mean), torch.zeros_like(self.covariance)
        for some, deviation, conditional in expected:
            weighted = deviation * posterior[some].mT[..., None]
            first += weighted.sum(1)
            second += weighted.mT @ deviation
            second += posterior[some].sum(0)[:, None, None] * conditional
        shift = first / count[:, None].clamp(min=1e-9)
        second -= count[:, None, None] * shift[:, :, None] * shift[:, None]
        self.mean = self.mean + shift
        prior = _PRIOR_ROWS * (1 + self.mean.shape[1])
        pooled = second.sum(0)
        pooled = (pooled + prior * (pooled / len(posterior)).diagonal().diag()) / (
            len(posterior) + prior
        )
        ridge = _RIDGE * torch.eye(len(pooled), dtype=torch.float64, device=pooled.device)
        self.covariance = (second + prior * pooled) / (count[:, None, None] + prior) + ridge
        # The others.
        weight = posterior.mT @ rows.has_alone.double()
        mean = posterior.mT @ rows.alone / (weight + _PRIOR_ROWS)
        squares = posterior.mT @ rows.alone.square() - 2 * mean * (posterior.mT @ rows.alone)
        squares = squares + weight * mean.square()
        pooled = (squares.sum(0) + 1) / (weight.sum(0) + 1)
        self.mean_alone = mean
        prior = 2 * _PRIOR_ROWS
        self.variance_alone = (squares + prior * pooled) / (weight + prior) + _RIDGE


def _clusters(rows: _Split, levels: Sequence[int], count: int, seed: int) -> Tensor:
    """Responsibilities to start from: k-means of scores and of levels, scaled to spread alike."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if count == 1:
        return torch.ones(len(rows.levels), 1, dtype=torch.float64, device=rows.levels.device)
    parts = [rows.joint, rows.alone]
    for own in rows.levels.split(list(levels), 1) if levels else ():
        share = own.mean(0)
        parts.append(own / (share * (1 - share)).sum().sqrt().clamp(min=0.1))
    means = KMeans(count, n_init=1, max_iter=20, random_state=seed)
    with warnings.catch_warnings():
        # Fewer distinct rows than components: some start alike, and stay so.
        warnings.simplefilter("ignore", ConvergenceWarning)
        label = torch.from_numpy(means.fit_predict(torch.cat(parts, 1).cpu().numpy())).long()
    certain = nn.functional.one_hot(label, count).to(rows.levels)
    return 0.9 * certain + 0.1 / count


def _fitted(rows: _Split, levels: Sequence[int], count: int, seed: int) -> _Law:
    law = _Law(count, levels, rows.joint.shape[1], rows.alone.shape[1]).to(rows.levels.device)
    return law.climb(rows, _clusters(rows, levels, count, seed))


def _chosen(rows: _Split, levels: Sequence[int], counts: Sequence[int], seed: int) -> _Law:
    """The law of as many components as have the largest likelihood on held-out rows."""
    order = torch.randperm(len(rows.levels), generator=torch.Generator().manual_seed(seed))
    some = rows.of(order[:_MOST_ROWS].to(rows.levels.device))
    size = len(some.levels)
    numbers = torch.arange(size, device=some.levels.device)
    held_out = (
        numbers.chunk(_FOLDS) if size < _FEW_ROWS else numbers.split(round(_HELD_OUT * size))[:1]
    )
    best, value = None, -math.inf
    for count in counts:
        if best is not None and count * _ROWS_PER_COMPONENT > size - len(held_out[0]):
            break
        total = 0.0
        for fold in held_out:
            left = torch.ones(size, dtype=torch.bool, device=fold.device)
            left[fold] = False
            law = _fitted(some.of(left), levels, count, seed)
            total += law.log_joint(some.of(fold))[0].logsumexp(1).sum().item()
        if total > value:
            best, value = law, total
        else:
            break
    assert best is not None
    return best.climb(rows)


class MixtureImputer(Imputer):
    """Draws from a finite mixture, fitted by EM, given x_S.

    Within a component numbers are jointly normal on the scale of their normal scores, as in a
    `CopulaImputer`, and categories are independent; across components everything may depend on
    everything. A column of few distinct values is a category, and so are one-hot elements together.
    A value of a column of numbers that many rows share, or a missing cell, has a probability of its
    own. Categories of which one nearly determines another are one. Covariances are shrunk towards
    the pooled one, and shares of categories towards those of all rows.

    McLachlan & Peel (2000), Finite Mixture Models; conditionals of a mixture: Aas, Jullum & Løland
    (2021), Section 3 for one component.

    Draws of numbers are interpolated between numbers that were observed, or are these, where they
    repeat; draws of categories were observed. Of a table (`table_imputer`) each number becomes the
    nearest observed one.

    Args:
        reference: at least two rows of background data, `[rows, *event]`.
        players: see `Players`; by default pixels of pictures, else every element of a row.
        components: their number; by default 1, 2, 4, ... or 64, whichever makes held-out rows most
            likely, with at least ten rows each.
        seed: of what the components start from, and of the rows that are held out.
        mixture: one that was fitted before; by default it is fitted.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of at least two finite rows of the
            shape that `players` own; `components` is no whole number from 1 to that of the rows.

    Attributes:
        mixture: the law, without the rows.

    >>> imputer = MixtureImputer(torch.randn(100, 3, generator=torch.Generator().manual_seed(0)))
    >>> x, mask = torch.zeros(1, 3), torch.tensor([[[True, False, True]]])
    >>> from manifold_shap.coalitions import Listed
    >>> imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(5)).rows.shape
    torch.Size([1, 1, 5, 3])
    >>> imputer.log_prob(x, mask).shape
    torch.Size([1, 1])
    """

    name = "mixture"

    def __init__(
        self,
        reference: Any,
        players: Players | None = None,
        components: int | None = None,
        seed: int = 0,
        mixture: "Mixture | None" = None,
    ) -> None:
        super().__init__(reference, players)
        rows = self.reference.flatten(1)
        if len(rows) < 2:
            raise UnfitError(
                f"Expected at least two rows in `reference` but got {len(rows)}; pass more of the "
                "training data."
            )
        if components is not None:
            check_whole("components", components, most=len(rows))
        check_seed(seed)
        self.mixture = mixture or Mixture.fit(rows, self.players, components, seed)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        plain, tensors = super().state()
        law = {f"mixture.{name}": own for name, own in self.mixture.state_dict().items()}
        return {**plain, "mixture": self.mixture.settings}, {**tensors, **law}

    @classmethod
    def restored(cls, settings: dict[str, Any], tensors: dict[str, Tensor], passed: Any) -> Imputer:
        law = {name: tensors.pop(name) for name in [*tensors] if name.startswith("mixture.")}
        settings["mixture"] = Mixture.of(settings["mixture"])
        settings["mixture"].load_state_dict(
            {name.removeprefix("mixture."): own for name, own in law.items()}
        )
        return super().restored(settings, tensors, passed)

    @property
    def provenance(self) -> dict[str, Any]:
        return {"components": len(self.mixture)}

    def log_prob(self, x: Rows, mask: Mask | None = None) -> Float[Tensor, "batch m"]:
        """The log-density of x_S: of normal scores, and of levels.

        Args:
            x: rows.
            mask: coalitions S, by default all players.
        """
        x = check_rows(x, self.players)
        if mask is None:
            mask = torch.ones(len(x), 1, len(self.players), dtype=torch.bool)
        mask = check_coalitions(mask, len(x), self.players).to(x.device)
        return self.mixture.log_joint(x.flatten(1), mask).logsumexp(-1).float()

    def impute(self, x: Rows, coalitions: Coalitions, draws: range) -> Completions:
        """Complete each coalition: a component given x_S, then a draw of it; see `Imputer.impute`.

        Coalitions of one key share the numbers by which components, scores and levels are drawn.
        """
        mask, keys = coalitions.masks(), coalitions.each_key()
        law = self.mixture
        rows = law.split(x.flatten(1))
        completed = x.new_zeros(keys.numel(), len(draws), x[0].numel())
        for part in law.parts(rows, mask, len(draws)):
            key = keys.flatten()[part.pair]
            u = _random.uniform(_random.fold(key, _COMPONENT), (), draws).double()
            upper = part.log_joint.softmax(-1).cumsum(-1)
            component = torch.searchsorted(upper, u * upper[:, -1:]).clamp(max=len(law) - 1)
            found = completed[part.pair]
            normal = _random.normal(key, (len(law.numbers),), draws)
            scores = law.scores(part, rows.joint[part.row], component, normal)
            found[..., law.numbers.elements] = law.numbers.quantiles(scores).to(found.dtype)
            u = _random.uniform(_random.fold(key, _LEVEL), (len(law.categories),), draws)
            for number, category in enumerate(law.categories):
                category.write(law.level(number, part, component, u[..., number]), found)
            completed[part.pair] = found
        drawn = completed.unflatten(0, mask.shape[:2]).unflatten(-1, self.players.event)
        return Completions(self.splice(x, mask, drawn))


class Mixture(nn.Module):
    """The law of a `MixtureImputer`, without its rows.

    Args:
        categories: columns of few values, and values that many rows share.
        numbers: columns of numbers.
        components: their number.
        joint: how many of the numbers are normal together.

    Attributes:
        law: the parameters.
        joint: which numbers are normal together.
    """

    def __init__(
        self, categories: Sequence[Category], numbers: Numbers, components: int, joint: int
    ) -> None:
        super().__init__()
        self._categories, self.numbers = nn.ModuleList(categories), numbers
        self._levels = [len(each) for each in categories]
        self.law = _Law(components, self._levels, joint, len(numbers) - joint)
        self.joint: Tensor = nn.Buffer(torch.arange(len(numbers)) < joint)

    @classmethod
    def fit(
        cls,
        rows: Float[Tensor, "rows elements"],
        players: Players,
        components: int | None,
        seed: int,
    ) -> "Mixture":
        """A mixture of so many components, or of as many as make held-out rows most likely."""
        made = cls(*split(rows, players), 1, 0).to(rows.device)
        made._set_joint(rows)
        data = made.split(rows)
        if components is None:
            made.law = _chosen(data, made._levels, _COMPONENTS, seed)
        else:
            made.law = _fitted(data, made._levels, components, seed)
        return made

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Mixture":
        """One of these settings, whose tensors are to be loaded."""
        categories = [Category(**each) for each in settings["categories"]]
        numbers = Numbers.of(settings["numbers"])
        return cls(categories, numbers, settings["components"], settings["joint"])

    @property
    def settings(self) -> dict[str, Any]:
        """Plain data from which `Mixture.of` makes one of these shapes."""
        return {
            "categories": [each.settings for each in self.categories],
            "numbers": self.numbers.settings,
            "components": len(self),
            "joint": int(self.joint.sum()),
        }

    def __len__(self) -> int:
        return len(self.law)

    @property
    def categories(self) -> list[Category]:
        return cast(list[Category], list(self._categories))

    def log_joint(
        self, x: Float[Tensor, "batch elements"], mask: Mask
    ) -> Float64[Tensor, "batch m components"]:
        """log w_k p_k(x_S)."""
        found = torch.empty(mask[..., 0].numel(), len(self), dtype=torch.float64, device=x.device)
        for part in self.parts(self.split(x), mask, 1):
            found[part.pair] = part.log_joint
        return found.unflatten(0, mask.shape[:2])

    def expected(
        self, x: Float[Tensor, "batch elements"], mask: Mask
    ) -> tuple[Float[Tensor, "batch m elements"], Float[Tensor, "batch m elements"]]:
        """E[X | x_S] of every element, and a typical row, whose categories are the likeliest.

        Numbers are those of the expected normal scores. Absent elements count; others are not those
        of x.
        """
        rows, law = self.split(x), self.law
        means, typical = x.new_zeros(2, mask[..., 0].numel(), x.shape[1])
        for part in self.parts(rows, mask, 1):
            posterior = part.log_joint.softmax(-1)
            deviation = (rows.joint[part.row, None] - law.mean) * part.given[:, None]
            weighted = (part.precision[part.place] @ deviation[..., None])[..., 0]
            conditional = law.mean + (weighted.movedim(1, 0) @ law.covariance).movedim(0, 1)
            scores = posterior.new_empty(len(posterior), len(self.numbers))
            scores[:, self.joint] = (posterior[..., None] * conditional).sum(1)
            scores[:, ~self.joint] = posterior @ law.mean_alone
            mean = means[part.pair]
            mean[:, self.numbers.elements] = self.numbers.quantiles(scores).to(mean.dtype)
            whole = mean.clone()
            for number, category in enumerate(self.categories):
                shares, matching = self._shares(number), part.matching[number].double()
                level = matching * ((posterior / (matching @ shares.mT)) @ shares)
                category.write(level.argmax(-1), whole)
                category.write_mean(level.to(mean.dtype), mean)
            means[part.pair], typical[part.pair] = mean, whole
        return means.unflatten(0, mask.shape[:2]), typical.unflatten(0, mask.shape[:2])

    def _set_joint(self, rows: Float[Tensor, "rows elements"]) -> None:
        """Decide which numbers are normal together: those that many rows have, in few patterns."""
        has = self._have(self._labels(rows), len(rows))
        share = has.double().mean(0)
        joint = share > _LEAST_SHARE
        while len(distinct_coalitions(has[:, joint])[0]) > _MOST_PATTERNS:
            joint &= share > share[joint].min()
        self.joint = joint

    def _labels(self, x: Float[Tensor, "batch elements"]) -> list[Tensor]:
        return [category.label(x) for category in self.categories]

    def _have(self, labels: list[Tensor], count: int) -> Bool[Tensor, "batch numbers"]:
        """Which rows have a number in each column of numbers."""
        has = torch.ones(count, len(self.numbers), dtype=torch.bool, device=self.joint.device)
        for category, label in zip(self.categories, labels, strict=True):
            if category.has_numbers:
                has[:, self.numbers.elements.index(category.elements[0][0])] = label[:, 0] < 0
        return has

    def split(self, x: Float[Tensor, "batch elements"]) -> _Split:
        labels = self._labels(x)
        has = self._have(labels, len(x))
        scores = torch.where(has, self.numbers.scores(x), 0)
        levels = torch.zeros(len(x), sum(self._levels), dtype=torch.float64, device=x.device)
        first = 0
        for category, label in zip(self.categories, labels, strict=True):
            levels.scatter_(1, first + category.level(label)[:, None], 1)
            first += len(category)
        joint = self.joint
        return _Split(
            labels, levels, scores[:, joint], scores[:, ~joint], has[:, joint], has[:, ~joint]
        )

    def _shares(self, number: int) -> Float64[Tensor, "components levels"]:
        first = sum(self._levels[:number])
        return self.law.log_shares[:, first : first + self._levels[number]].exp()

    def parts(self, rows: _Split, mask: Mask, draws: int) -> Iterator[_Part]:
        """log w_k p_k(x_S) of pairs of a row and a coalition, those of equal patterns together."""
        batch, m, _ = mask.shape
        alone, joint = self.numbers.owners[~self.joint], self.numbers.owners[self.joint]
        known = mask[..., alone].double() @ self.law.log_alone(rows)
        found = (self.law.log_weights + known).flatten(0, 1)
        row = torch.arange(batch, device=mask.device).repeat_interleave(m)
        pairs = mask.flatten(0, 1)
        matching = [
            category.matching(label[row], pairs[:, category.owners])
            for category, label in zip(self.categories, rows.labels, strict=True)
        ]
        for number, own in enumerate(matching):
            found += (own.double() @ self._shares(number).mT).log()
        given = pairs[:, joint] & rows.has_joint[row]
        patterns, which = distinct_coalitions(given)
        size = max(1, given.shape[1])
        most = _MOST_ELEMENTS // max(len(self.law) * size**2, draws * max([size, *self._levels]))
        for pair in which.argsort().split(max(1, most)):
            own, place = which[pair].unique(return_inverse=True)
            precision, log_det = self.law.factors(patterns[own])
            deviation = (rows.joint[row[pair], None] - self.law.mean) * given[pair, None]
            squared = ((precision[place] @ deviation[..., None])[..., 0] * deviation).sum(-1)
            constant = log_det[place] + given[pair].sum(-1, keepdim=True) * _LOG_2_PI
            yield _Part(
                pair,
                row[pair],
                found[pair] - 0.5 * (squared + constant),
                [own[pair] for own in matching],
                given[pair],
                precision,
                place,
            )

    def scores(
        self,
        part: _Part,
        known: Float64[Tensor, "pairs joint"],
        component: Int64[Tensor, "pairs draws"],
        normal: Float[Tensor, "pairs draws numbers"],
    ) -> Float64[Tensor, "pairs draws numbers"]:
        """Scores of the absent numbers, by Matheron's rule; see `GaussianImputer`."""
        law, joint = self.law, self.joint
        scores = normal.double()
        alone = law.variance_alone.sqrt()[component] * scores[..., ~joint]
        scores[..., ~joint] = law.mean_alone[component] + alone
        root, drawn = torch.linalg.cholesky(law.covariance), scores[..., joint]
        # One component at a time, for all draws of the pairs that have it: matrices of single draws
        # would take most of the time and memory.
        for number, (mean, covariance) in enumerate(zip(law.mean, law.covariance, strict=True)):
            own = component == number
            some = own.any(1).nonzero()[:, 0]
            prior = mean + drawn[some] @ root[number].mT
            apart = (known[some, None] - prior) * part.given[some, None]
            moved = apart @ part.precision[part.place[some], number] @ covariance
            drawn[some] = torch.where(own[some, :, None], prior + moved, drawn[some])
        scores[..., joint] = drawn
        return scores

    def level(
        self,
        number: int,
        part: _Part,
        component: Int64[Tensor, "pairs draws"],
        u: Float[Tensor, "pairs draws"],
    ) -> Int64[Tensor, "pairs draws"]:
        """Levels of a category that agree with what is known of it, by their shares."""
        upper = (self._shares(number)[component] * part.matching[number][:, None]).cumsum(-1)
        wanted = u.double()[..., None] * upper[..., -1:]
        return torch.searchsorted(upper, wanted)[..., 0].clamp(max=upper.shape[-1] - 1)
