"""Data drawn from laws that are known: encoded rows and rows of the law are the same rows."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.data import BayesianNetwork, GaussianMixture, Mixture
from tests.cli.commands import ORDERS, TINY, explain, explained, train
from tests.oracles.networks import TARGETS, needs_files

PLAYERS = {"asia": 7, "sachs": 10, "child": 19, "insurance": 26}

LAWN = """network lawn {}
variable season { type discrete [ 3 ] { dry, mild, wet }; }
variable rain { type discrete [ 2 ] { yes, no }; }
variable sprinkler { type discrete [ 2 ] { on, off }; }
variable grass { type discrete [ 2 ] { wet, dry }; }
probability ( season ) { table 0.25, 0.25, 0.5; }
probability ( rain | season ) { (dry) 0.1, 0.9; (mild) 0.3, 0.7; (wet) 0.7, 0.3; }
probability ( sprinkler | season ) { (dry) 0.6, 0.4; (mild) 0.3, 0.7; (wet) 0.05, 0.95; }
probability ( grass | rain, sprinkler ) {
  (yes, on) 0.99, 0.01; (yes, off) 0.9, 0.1; (no, on) 0.8, 0.2; (no, off) 0.05, 0.95;
}
"""


@pytest.fixture
def lawn(tmp_path: Path) -> Path:
    path = tmp_path / "lawn.bif"
    path.write_text(LAWN)
    return path


def test_rows_of_a_mixture_are_those_of_its_law() -> None:
    data = GaussianMixture(rows=500, elements=4, components=2, law=3, seed=1)
    data.setup()
    assert data.players.names == ("x0", "x1", "x2", "x3")
    assert data.schema is None
    drawn = data.law.sample(500, seed=1)
    rows = torch.cat((data.x_train, data.x_validation, data.x_test))
    assert torch.equal(rows[rows[:, 0].argsort()], drawn.x[drawn.x[:, 0].argsort()])
    other = GaussianMixture(rows=500, elements=4, components=2, law=4)
    assert not torch.equal(other.law.means, data.law.means)
    with pytest.raises(ValueError, match="`components` to be a whole number of at least 2"):
        GaussianMixture(components=1)


def test_encoded_rows_are_rows_of_the_network(lawn: Path) -> None:
    data = BayesianNetwork(path=str(lawn), target="rain", rows=400)
    data.setup()
    assert data.name == "lawn"
    assert data.classes == ("yes", "no")
    assert data.players.names == ("season", "sprinkler", "grass")
    assert data.schema is not None
    x = data.law.rows(data.schema.decode(data.x_test))
    assert torch.equal(data.schema.encode(data.law.frame(x)), data.x_test)
    posterior = data.law.posterior(x, torch.ones(len(x), 1, 3, dtype=torch.bool))[:, 0, 0]
    yes = data.y_test == 0
    assert posterior[yes].mean() > posterior[~yes].mean() + 0.1


def test_a_network_of_encoded_rows_has_true_values(lawn: Path) -> None:
    """A model of the encoded rows, explained off the manifold and by the law."""
    data = BayesianNetwork(path=str(lawn), target="rain", rows=400)
    data.setup()
    schema = data.schema
    assert isinstance(schema, ms.Schema)
    network = nn.Sequential(nn.Linear(data.x_train.shape[1], 2), nn.Softmax(1))

    def of_frames(frame: object) -> Tensor:
        return network(schema.encode(frame)).detach()

    truth = ms.oracles.true_value(data.law.model(of_frames), data.law)
    imputer = ms.ExactMatchImputer(data.x_train, data.players)
    value = ms.imputed_value(network, imputer, schema=schema, draws=400)
    off = ms.imputed_value(
        network, ms.MarginalImputer(data.x_train, data.players), schema=schema, draws=400
    )
    frame = schema.decode(data.x_test)
    mask = ms.shapley_pairs(len(data.x_test), 3, least=500)
    scores = [ms.distance_to_truth(each, truth, frame, mask) for each in (value, off)]
    assert 2 * scores[0].debiased < scores[1].debiased


def test_a_wrong_target_or_path_raises_an_error(lawn: Path) -> None:
    with pytest.raises(ValueError, match=r"`target` to be one of \['season'.* but got 'ran'; did"):
        BayesianNetwork(path=str(lawn), target="ran").setup()
    with pytest.raises(FileNotFoundError, match="correct `path`"):
        BayesianNetwork(path="nowhere.bif", target="rain").setup()


def test_the_commands_explain_rows_of_a_network(lawn: Path, tmp_path: Path) -> None:
    words = ["data=bayesian_network", f"data.path={lawn}", "data.target=rain", "data.rows=300"]
    assert train(tmp_path, *words, *TINY)["mse"] > 0
    explain(tmp_path, *words, "instances=2", "compare=[]")
    found = explained(tmp_path, data="lawn")
    assert found.players.names == ("season", "sprinkler", "grass")
    assert found.outputs == ("yes", "no")
    assert set(found.features()["sprinkler"]) <= {"on", "off"}


def test_the_commands_explain_rows_of_a_mixture(tmp_path: Path) -> None:
    words = ["data=gaussian_mixture", "data.rows=300", "data.elements=4"]
    assert train(tmp_path, *words, *TINY)["mse"] > 0
    explain(tmp_path, *words, "instances=2", "compare=[]")
    assert explained(tmp_path, data="gaussian_mixture").phi.shape == (2, 4, 3)


@needs_files
@pytest.mark.parametrize("name", TARGETS)
def test_public_networks_are_data(name: str) -> None:
    path = f"bayesian_networks/{name}.bif.gz"
    data = BayesianNetwork(path=path, target=TARGETS[name], rows=3000)
    data.setup()
    assert data.name == name
    assert data.target not in data.players.names
    assert len(data.players) == PLAYERS[name]


@needs_files
@pytest.mark.parametrize("name", TARGETS)
def test_the_commands_explain_rows_of_public_networks(name: str, tmp_path: Path) -> None:
    path, target = f"bayesian_networks/{name}.bif.gz", TARGETS[name]
    words = ["data=bayesian_network", f"data.path={path}", f"data.target={target}"]
    words += ["data.rows=300"]
    assert train(tmp_path, *words, *TINY)["mse"] > 0
    explain(tmp_path, *words, "instances=2", "compare=[]", *ORDERS)
    found = explained(tmp_path, data=name)
    assert len(found.players) == PLAYERS[name]
    assert found.efficiency_gap < 1e-4


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_targets_depend_on_the_score(task: str) -> None:
    data = Mixture(rows=2000, task=task, seed=1)
    table = data.read()
    score = data.law.score(table.features).numpy()
    assert abs(np.median(score)) < 0.2
    assert abs(score.std() - 2) < 0.2
    labels = table.labels.numpy()
    if task == "regression":
        assert abs((labels - score).std() - 0.5) < 0.03
        return
    assert table.classes == ("leaves", "buys")
    expected = 1 / (1 + np.exp(-score))
    assert abs(labels[score > 1].mean() - expected[score > 1].mean()) < 0.05
    assert abs(labels[score < -1].mean() - expected[score < -1].mean()) < 0.05
