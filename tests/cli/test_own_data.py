"""Pictures, texts and series of one's own: trained and explained by the commands."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.commands import SHORT, explain, explained, train
from tests.data.test_image_folder import drawn
from tests.data.test_series import waves, write_npz, write_ts
from tests.data.test_texts import reviews

pytestmark = pytest.mark.filterwarnings("ignore:.* are not in the vocabulary")

FEW = [*SHORT, "classifier.max_epochs=1", "value_function.max_epochs=1"]
CONV, TRANSFORMER = "classifier.hidden=[4,8]", "classifier.hidden=[32]"
NETWORKS = {
    "conv": ["value_function.network=conv", "value_function.hidden=[4,8]"],
    "transformer": ["value_function.network=transformer", "value_function.hidden=[32]"],
    "model": ["value_function.network=model"],
}


def one_of(first: str, *others: str) -> pytest.MarkDecorator:
    """Networks, of which the first is trained by default."""
    slow = (pytest.param(name, marks=pytest.mark.slow) for name in others)
    return pytest.mark.parametrize("network", [first, *slow])


EXACT = ["estimator=exact", "instances=2"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures, texts, series, and a module with models of them."""
    place = tmp_path_factory.mktemp("files")
    drawn(place / "shapes")
    reviews(place / "reviews.csv")
    series, labels = waves(40)
    write_ts(place / "waves.ts", series, labels)
    write_npz(place / "waves.npz", series, labels)
    (place / "networks.py").write_text(
        "from torch import nn\n"
        "def pictures(x):\n    return 10 * x.flatten(2).mean(2)[:, :2] - 5\n"
        "pool = nn.AdaptiveAvgPool2d((1, 2))\n"
        "texts = nn.Sequential(nn.Embedding(99, 2), pool, nn.Flatten(), nn.Softmax(1))\n"
        "def series(x):\n    return x.clamp(min=-1).mean(2)\n"
    )
    return place


@pytest.fixture(autouse=True)
def _inside(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)


SHAPES = ["data=image_folder", "data.path=shapes", "data.patch=8"]
REVIEWS = ["data=text", "data.path=reviews.csv", "data.vocabulary=99"]
WAVES = ["data=series", "data.path=waves.ts", "data.segment=3"]


def names(summary: dict[str, Any]) -> list[str]:
    return [name.rpartition("_")[0] or name for name in summary["figures"]]


@one_of("conv", "transformer", "model")
def test_pictures_are_explained_by_maps(network: str, tmp_path: Path) -> None:
    metrics = train(tmp_path, *SHAPES, CONV, *FEW, *NETWORKS[network])
    assert metrics["mse"] > 0
    assert 0 <= metrics["classifier_accuracy"] <= 1
    summary = explain(tmp_path, "data=image_folder", "data.name=shapes", *EXACT)
    assert (summary["players"], summary["figures"]) == (4, ["pixel_maps.png"])
    found = explained(tmp_path, data="shapes")
    assert found.efficiency_gap < 1e-5
    assert found.x.shape == (2, 3, 16, 16)


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No picture is kept in memory."""
    monkeypatch.setattr("manifold_shap.data.image_folder.IN_MEMORY", 0)
    monkeypatch.setattr("manifold_shap.data.image_folder.READERS", 0)  # Quicker for so few.


def test_pictures_on_disk_are_explained_as_those_in_memory(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    words = [*SHAPES, "value_function=baseline"]
    expected = train(tmp_path / "kept", *words, CONV, *FEW[:-1])
    request.getfixturevalue("on_disk")
    metrics = train(tmp_path, *words, CONV, *FEW[:-1])
    assert metrics["mse"] == pytest.approx(expected["mse"], rel=1e-3)
    assert metrics["classifier_accuracy"] == expected["classifier_accuracy"]
    summary = explain(tmp_path, *words, EXACT[0], "instances=all", "block=2", "compare=[]")
    assert summary["instances"] == 4
    assert explained(tmp_path, "baseline", "shapes").efficiency_gap < 1e-5


def test_superpixels_are_players_of_a_picture(tmp_path: Path) -> None:
    words = ["data=image_folder", "data.path=shapes", "value_function=baseline"]
    train(tmp_path, *words, CONV, *FEW[:-1])
    few = ["estimator=permutation", "estimator.permutations=2", "instances=2", "compare=[]"]
    summary = explain(tmp_path, *words, *few, groups="superpixels")
    found = explained(tmp_path, "baseline", "shapes")
    assert (summary["players"], found.players.by_row) == (50, True)
    assert found.efficiency_gap < 1e-4
    with pytest.raises(ValueError, match=r"`groups` to be one of \['superpixels'\]"):
        explain(tmp_path, *words, *few, groups="words")


@pytest.mark.usefixtures("drawn_figures")
@one_of("transformer", "model")
def test_texts_are_explained_by_coloured_words(network: str, tmp_path: Path) -> None:
    metrics = train(tmp_path, *REVIEWS, TRANSFORMER, *FEW, *NETWORKS[network])
    assert metrics["mse_off_manifold"] > 0
    # Row 4 is of the file: a lovely film number 4. See it!
    few = ["estimator=permutation", "estimator.permutations=2"]
    summary = explain(tmp_path, *REVIEWS, *few, instances=[13, 4])
    assert summary["figures"] == ["text.html"]
    page = (tmp_path / "reviews" / "surrogate" / "plots" / "text.html").read_text()
    assert "good" in page
    assert "off the manifold" in page
    found = explained(tmp_path, data="reviews")
    assert found.counts.tolist() == [9, 9]
    assert found.phi[~found.present].isnan().all()
    assert summary["largest_standard_error"] is not None
    for groups, counts in {"sentences": [2, 2], "words": [7, 7]}.items():
        explain(tmp_path, *REVIEWS, *few, "compare=[]", instances=[13, 4], groups=groups)
        found = explained(tmp_path, data="reviews")
        assert found.counts.tolist() == counts
        assert found.efficiency_gap < 1e-4


@pytest.mark.parametrize(
    "own", [["model=python", "model.call=networks:texts"], pytest.param([], marks=pytest.mark.slow)]
)
def test_tokens_are_masked_padded_and_deleted(own: list[str], tmp_path: Path) -> None:
    few = ["estimator=permutation", "estimator.permutations=2", "compare=[]"]
    classifier = [] if own else [TRANSFORMER, *FEW[:-1]]
    bases = []
    for name in ("mask_token", "padding", "deletion"):
        words = [*REVIEWS, *own, f"value_function={name}"]
        metrics = train(tmp_path, *words, *classifier)
        assert (metrics["draws"], metrics["epochs"]) == (1, 0)
        assert metrics["mse"] > 0
        explain(tmp_path, *words, *few, instances=[13, 4])
        found = explained(tmp_path, name, "reviews")
        assert found.efficiency_gap < 1e-5
        assert found.counts.tolist() == [9, 9]
        bases.append(found.base[0])
    masked, padded, deleted = bases
    assert torch.equal(padded, deleted)  # Of no token padding is left.
    assert not torch.equal(masked, padded)


def test_tokens_of_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="give the id of the padding token"):
        train(tmp_path, "data=iris", "classifier=naive_bayes", "value_function=padding")


@pytest.mark.usefixtures("drawn_figures")
@one_of("conv", "transformer", "model")
def test_series_are_explained_by_curves(network: str, tmp_path: Path) -> None:
    metrics = train(tmp_path, *WAVES, "classifier=conv", CONV, *FEW, *NETWORKS[network])
    assert set(metrics["mse_by_law"]) == {"scattered", "blocks"}
    summary = explain(tmp_path, *WAVES, *EXACT)
    assert names(summary) == ["series", "series"]
    found = explained(tmp_path, data="waves")
    assert summary["players"] == 3
    assert found.efficiency_gap < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "classifier", "network", "data"),
    [
        (WAVES, ["classifier=conv", CONV], "conv", "waves"),
        (REVIEWS, [TRANSFORMER], "transformer", "reviews"),
    ],
)
def test_networks_are_explained_in_one_pass(
    words: list[str], classifier: list[str], network: str, data: str, tmp_path: Path
) -> None:
    # A convolutional surrogate is amortised by a transformer, too.
    amortized = ["amortized=default", "amortized.max_epochs=1", "amortized.hidden=[32]"]
    metrics = train(tmp_path, *words, *classifier, *FEW, *NETWORKS[network], *amortized)
    assert metrics["amortized"]["relative_error"] > 0
    explain(tmp_path, *words, "estimator=amortized", "instances=2", "compare=[]")
    found = explained(tmp_path, data=data)
    assert found.made_by["relative_error"] == metrics["amortized"]["relative_error"]
    assert found.efficiency_gap < 1e-4


@pytest.mark.parametrize(
    ("words", "call"), [(SHAPES, "pictures"), (REVIEWS, "texts"), (WAVES, "series")]
)
def test_models_of_ones_own_get_rows_of_the_source(
    words: list[str], call: str, tmp_path: Path
) -> None:
    own = ["model=python", f"model.call=networks:{call}", "value_function=marginal"]
    few = ["estimator=permutation", "estimator.permutations=2", "instances=2", "compare=[]"]
    explain(tmp_path, *words, *own, *few)
    (home,) = tmp_path.iterdir()
    found = explained(tmp_path, "marginal", home.name)
    assert found.efficiency_gap < 1e-5
    assert found.phi[found.present].abs().max() > 0
