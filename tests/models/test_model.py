"""Models to explain: what they return is told apart, checked, and made log-probabilities."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.models import Model, as_model
from manifold_shap.values import reference_outputs

X = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
LOGITS = X @ torch.tensor([[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]])


def logits(x: Tensor) -> Tensor:
    return x @ torch.tensor([[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("function", "returns"),
    [
        (lambda x: +logits(x), "logits"),
        (lambda x: logits(x).softmax(-1), "probabilities"),
        (lambda x: logits(x).softmax(-1).double(), "probabilities"),
    ],
)
def test_logits_and_probabilities_are_told_apart(
    function: Callable[[Tensor], Tensor], returns: str
) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = as_model(function, X)
        assert as_model(function, X).returns == returns  # What is known is not said again.
    assert ["returns=" in str(each.message) for each in said] == [True] * (returns == "logits")
    assert model.returns == returns
    assert model.classes == ("0", "1")
    torch.testing.assert_close(model(X), LOGITS.log_softmax(-1), check_dtype=False)
    assert model(X).dtype == function(X).dtype
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        as_model(function, X, returns="logits")
    twice = ["a softmax is taken once more" in str(each.message) for each in said]
    assert twice == [True] * (returns == "probabilities")


def regressor() -> LinearRegression:
    return LinearRegression().fit(X.numpy(), LOGITS.argmax(1).numpy())


@pytest.mark.parametrize(
    ("model", "options", "kind", "message"),
    [
        (lambda x: (logits(x), x), {}, TypeError, r"got tuple; .*`lambda rows: model\(rows\)\[0"),
        (lambda x: x.reshape(50, 3, 1), {}, ValueError, r"got \(50, 3, 1\);.*flatten\(1\)"),
        (lambda x: x[:, 0] > 0, {}, ValueError, "in place of numbers of classes.*`predict_proba`"),
        (lambda x: x.sigmoid(), {}, ValueError, "several labels .*returns='values' of `ms.as_m"),
        (lambda x: x[:, 0], {}, ValueError, r"\(50, classes\) for 50 .*\(50,\);.*0 \* z"),
        (lambda x: x[:10], {}, ValueError, "each of 50 rows but the function '<lambda>' ret"),
        (lambda x: x / 0 * 0, {}, ValueError, "first in row 0, element 0 .nan.; look for an ov"),
        (lambda x: x[:, :1].sigmoid(), {}, ValueError, r"got \(50, 1\);.*ZeroPad1.*stack.*'iden"),
        (3, {}, TypeError, "Expected `model` to be a torch module, .*but got 3"),
        (nn.Linear, {}, TypeError, "Linear.*; of a class give an instance"),
        (nn.Linear(3, 2).state_dict(), {}, TypeError, "OrderedDict.* `load_state_dict`"),
        ("model", {}, ValueError, r"Refused to load model: .* Save the model as ONNX"),
        (logits, {"returns": "odds"}, ValueError, "`returns` to be one of .* but got 'odds'"),
        (logits, {"classes": "abc"}, ValueError, "`classes`, .* 'logits' returned 2"),
        (logits, {"batch_size": 0}, ValueError, "`batch_size` to be a whole number of at least 1"),
        (regressor(), {"returns": "logits"}, ValueError, "'values' for LinearRegression .*; a reg"),
        (
            LinearSVC().fit(X.numpy(), LOGITS.argmax(1).numpy()), {}, TypeError,
            r"LinearSVC has `predict` only; .*`CalibratedClass",
        ),
    ],
)  # fmt: skip
def test_errors(model: Any, options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        as_model(model, X, **options)


def test_zeros_are_counted_in_a_warning() -> None:
    p = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    model = Model(lambda x: x, ("a", "b", "c"), "probabilities")
    with pytest.warns(UserWarning, match=r"3 of 6 probabilities .* exactly zero; .* 1.0e-03"):
        reference_outputs(model, ms.spaces.ILR(3e-3), p)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reference_outputs(model, ms.spaces.ILR(), (p + 1) / 4)
        reference_outputs(model, ms.spaces.Probability(), p)


def test_naive_bayes_is_read_beyond_the_reach_of_probabilities() -> None:
    # Two classes of one far feature: 1e4 nats apart.
    bayes = GaussianNB().fit([[0.0], [1.0], [100.0], [101.0]], [0, 0, 1, 1])
    x = torch.tensor([[0.5], [100.5]])
    log_p = as_model(bayes, x)(x)
    assert bool(log_p.isfinite().all())
    torch.testing.assert_close(
        (log_p[:, 0] - log_p[:, 1]).double(),
        torch.from_numpy(bayes.predict_joint_log_proba(x.numpy()) @ [1.0, -1.0]),
        rtol=1e-4,
        atol=0,
    )


def test_a_random_model_is_asked_twice_and_named() -> None:
    noisy = Model(lambda x: nn.functional.dropout(logits(x), 0.5), ("a", "b"), "logits")
    with pytest.warns(UserWarning, match=r"other outputs .* same rows \(by up to .* dropout"):
        noisy.checked(X)
    # Once is enough, and warnings are errors here; modules are put into evaluation mode.
    as_model(noisy, X)
    module = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    for model in (module.train(), Model(module.train(), ("a", "b"), "logits")):
        as_model(model, X)


@pytest.mark.parametrize("most", [1, 7, 50, 64])
def test_calls_of_at_most_so_many_rows(most: int) -> None:
    sizes: list[int] = []

    def limited(x: Tensor) -> Tensor:
        sizes.append(len(x))
        return logits(x)

    model = as_model(limited, X, batch_size=most)
    torch.testing.assert_close(model(X), LOGITS.log_softmax(-1))
    assert max(sizes) == min(most, 50)


NORMALISED = nn.BatchNorm1d(3).train()
ROWS_TOGETHER: dict[str, Callable[[Tensor], Tensor]] = {
    "normalised in training mode": lambda x: NORMALISED(torch.cat((x, x)))[: len(x)],
    "rows as steps of a series": lambda x: x.cumsum(0),
    "smoothed but for both ends": lambda x: torch.cat((x[:1], (x[1:] + x[:-1]) / 2, x[-1:]))[
        : len(x)
    ].where(torch.arange(len(x))[:, None] < len(x) - 1, x),
}


@pytest.mark.parametrize("name", ROWS_TOGETHER)
def test_a_model_whose_rows_depend_on_each_other_is_named(name: str) -> None:
    with pytest.warns(UserWarning, match="depend on the other rows of the call"):
        as_model(ROWS_TOGETHER[name], X, returns="values")
    # Of a single reference row it shows in the rows that are explained.
    value = ms.imputed_value(ROWS_TOGETHER[name], ms.imputers.BaselineImputer(X[0]), "identity")
    with pytest.warns(UserWarning, match="depend on the other rows of the call"):
        ms.exact_shapley(value, X)
    ms.exact_shapley(value, X)


@pytest.mark.parametrize(("dtype", "offset"), [(torch.float16, 0.0), (torch.float32, 1e4)])
def test_rounding_is_no_dependence(dtype: torch.dtype, offset: float) -> None:
    weight = torch.randn(3, 2, generator=torch.Generator().manual_seed(0)).to(dtype)

    def model(x: Tensor) -> Tensor:
        # Sums in an order that depends on how many rows there are.
        order = [0, 1, 2] if len(x) > 1 else [2, 1, 0]
        return sum(x.to(dtype)[:, k, None] * weight[k] for k in order) + offset  # type: ignore

    found = as_model(model, X, returns="values")(X)
    assert found.dtype == torch.float32


WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@pytest.mark.parametrize("dtype", WHOLE)
def test_numbers_stay_within_the_range_of_whole_ones(dtype: torch.dtype) -> None:
    seen: list[Tensor] = []

    def model(x: Tensor) -> Tensor:
        seen.append(x)
        return x[:, :2].double()

    wrapped = as_model(model, torch.tensor([[0, 1]]).to(dtype), returns="values")
    wrapped(torch.tensor([[-1e30, 1e30], [-3.0, 1.4]]))
    low, high = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    least, most = seen[-1][0].tolist()
    assert seen[-1].dtype == dtype
    assert least == low
    # A float has no such number as the largest: what is left out is a rounding.
    assert high - most <= high * 2**-24
    assert seen[-1][1].tolist() == [max(low, -3), 1]
