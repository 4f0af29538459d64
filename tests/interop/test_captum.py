"""The interface of captum's attribution methods, and the values behind it."""

from typing import Any

import pytest
import torch
from captum import attr
from torch import Tensor, nn

import manifold_shap as ms
from tests.examples import Padded, people, people_model, table, uniform


def network() -> nn.Module:
    """Interactions of four inputs, and three classes."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).eval()


def of_network(model: nn.Module, baseline: Tensor) -> ms.interop.CaptumAttribution:
    value = ms.imputed_value(model, ms.imputers.BaselineImputer(baseline), "identity")
    return ms.interop.CaptumAttribution(value, ms.exact_shapley)


def of_linear() -> tuple[ms.interop.CaptumAttribution, Tensor]:
    """Outputs 0 and 1 of row x are Σ x and Σ 10 x, of four players."""
    weights = torch.tensor([1.0, 10.0])

    def value(x: Tensor, mask: Tensor) -> Tensor:
        return (x[:, None] * mask).sum(-1, keepdim=True) * weights

    x = torch.arange(8.0).reshape(2, 4)
    return ms.interop.CaptumAttribution(ms.as_value_function(value, x), ms.exact_shapley), x


@pytest.mark.parametrize("target", [1, [0, 2, 1]])
def test_values_are_those_of_captum(target: Any) -> None:
    model, x = network(), uniform(3, 4)
    baseline = torch.tensor([0.5, -1.0, 0.0, 2.0])
    theirs = attr.ShapleyValues(model).attribute(x, baselines=baseline[None], target=target)
    ours = of_network(model, baseline).attribute(x, target=target)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "mask", [[[0, 0, 1, 2]], [[0, 0, 1, 2], [3, 1, 3, 1]]], ids=["all rows", "each row"]
)
def test_players_of_a_mask_are_those_of_captum(mask: list[list[int]]) -> None:
    model, x = network(), uniform(2, 4)
    settings = {"target": 2, "feature_mask": torch.tensor(mask)}
    theirs = torch.cat(
        [
            attr.ShapleyValues(model).attribute(
                x[row : row + 1], target=2, feature_mask=_without_gaps(mask[row % len(mask)])
            )
            for row in range(2)
        ]
    )
    ours = of_network(model, torch.zeros(4)).attribute(x, **settings)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def _without_gaps(numbers: list[int]) -> Tensor:
    return torch.tensor([sorted(set(numbers)).index(number) for number in numbers])[None]


@pytest.mark.parametrize(
    ("target", "scale"),
    [
        ((1,), [10, 10]),
        (torch.tensor(0), [1, 1]),
        (torch.tensor([1, 0]), [10, 1]),
        ([(0,), (1,)], [1, 10]),
        ("1", [10, 10]),
        (["1", "0"], [10, 1]),
    ],
)
def test_targets(target: Any, scale: list[int]) -> None:
    method, x = of_linear()
    torch.testing.assert_close(method.attribute(x, target=target), x * torch.tensor(scale)[:, None])


def test_pictures_keep_their_shape_and_a_mask_spans_channels() -> None:
    def value(x: Tensor, mask: Tensor) -> Tensor:
        return (x.flatten(1)[:, None] * mask).sum(-1, keepdim=True)

    x = uniform(2, 8).reshape(2, 2, 2, 2).requires_grad_()
    method = ms.interop.CaptumAttribution(ms.as_value_function(value, x.detach()))
    torch.testing.assert_close(method.attribute(x), x.detach())
    found = method.attribute((x,), feature_mask=torch.tensor([[0, 0], [5, 5]]))
    assert isinstance(found, tuple)
    expected = x.detach().sum((1, 3))[:, None, :, None].expand(x.shape)
    torch.testing.assert_close(found[0], expected)
    assert not found[0].requires_grad


def test_padding_has_zero() -> None:
    x = Padded.some_rows()
    found = ms.interop.CaptumAttribution(Padded(), ms.exact_shapley).attribute(x, target=0)
    assert (found[x == 0] == 0).all()
    expected = ms.exact_shapley(Padded(), x).phi[..., 0]
    assert torch.equal(found[x != 0], expected[x != 0])


def test_log_ratios_are_explained_together() -> None:
    model = ms.as_model(lambda x: x.softmax(-1), torch.zeros(1, 3))
    value = ms.imputed_value(model, ms.imputers.BaselineImputer(torch.zeros(3)), "ilr")
    x = uniform(2, 3)
    found = ms.interop.CaptumAttribution(value, ms.exact_shapley).attribute(x, target=1)
    torch.testing.assert_close(found, ms.exact_shapley(value, x).phi[..., 1])


def test_only_the_targets_are_explained() -> None:
    asked = []

    def estimator(value: ms.ValueFunction, x: Tensor) -> ms.Explanation:
        asked.append(value.outputs)
        return ms.exact_shapley(value, x, progress=False)

    x = uniform(4, 3)
    method = ms.interop.CaptumAttribution(table(3, outputs=5), estimator)
    found = method.attribute(x, target=[3, 1, 1, 3])
    assert asked == [("1", "3")]
    phi = ms.exact_shapley(table(3, outputs=5), x).phi
    torch.testing.assert_close(found, phi[torch.arange(4), :, [3, 1, 1, 3]])


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"target": 5}, ValueError, "`target`"),
        ({}, ValueError, r"Expected `target`, one of \['0', '1'\] or its position"),
        ({"target": "blue"}, ValueError, "`target` to be one of .* but got 'blue'"),
        ({"target": (0, 1)}, ValueError, "`target`"),
        ({"inputs": (torch.ones(2, 4),) * 2, "target": 0}, ValueError, "too many values"),
        ({"target": [0, 1, 1]}, RuntimeError, "expanded size"),
        ({"target": 0, "feature_mask": torch.zeros(4)}, TypeError, "whole numbers"),
        ({"target": 0, "feature_mask": torch.zeros(3).long()}, RuntimeError, "expanded size"),
    ],
)
@pytest.mark.usefixtures("any_type")
def test_bad_settings(settings: dict[str, Any], error: type[Exception], says: str) -> None:
    method, x = of_linear()
    with pytest.raises(error, match=says):
        method.attribute(**{"inputs": x, **settings})


@pytest.mark.parametrize("settings", [{}, {"feature_mask": torch.tensor([[0, 0, 1, 2]])}])
def test_it_goes_through_the_noise_tunnel_of_captum(settings: dict[str, Any]) -> None:
    model, x = network(), uniform(2, 4)
    found = []
    for method in (of_network(model, torch.zeros(4)), attr.ShapleyValues(model)):
        tunnel = attr.NoiseTunnel(method)
        assert tunnel.multiplies_by_inputs
        with torch.random.fork_rng():
            torch.manual_seed(0)
            given = {"nt_samples": 4, "stdevs": 0.1, "target": torch.tensor([0, 2]), **settings}
            found.append(tunnel.attribute(x, **given))
    assert found[0].shape == x.shape
    torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=1e-4)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(found[0], method.attribute(x, target=torch.tensor([0, 2])))


@pytest.mark.usefixtures("any_type")
def test_a_frame_is_given_as_rows_of_the_value_function() -> None:
    frame = people()
    imputer = ms.imputers.table_imputer(ms.imputers.GaussianImputer, ms.Table.fit(frame), frame)
    value = ms.imputed_value(people_model, imputer, draws=2)
    method = ms.interop.CaptumAttribution(value, ms.exact_shapley)
    found = method.attribute(value.rows(frame[:3]), target=0)
    torch.testing.assert_close(found, ms.exact_shapley(value, frame[:3]).phi[..., 0])
