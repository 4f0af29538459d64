"""Seven ways where columns are categories, and one prediction near .5 (Carballo, Section 5.3).

The thesis' data (ADNI) are not public. Its table has five numbers and two categories; here it is
seven columns of the census of 1994, four of them categories, and whether income exceeds $50,000.
"""

from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.report import Claim, Found, Table, cell, records
from benchmarks.support import people, people_measures
from benchmarks.support.differences import HARDLY, SURELY, sure
from benchmarks.support.people import CATEGORIES, COLUMNS, IMPUTERS, NUMBERS, WAYS
from benchmarks.support.people_measures import FIRST, lead, separation

TITLE = "Categories in the seven ways"
SOURCE = "Carballo, Section 5.3, Figs. 5.5, 5.6 and 5.9"
MARGINAL, CAUSAL, EMPIRICAL = people.MARGINAL, people.CAUSAL, people.EMPIRICAL
NUMBERED = people.GAUSSIAN, people.COPULA, EMPIRICAL
ERRORS = "standard errors, of repeats with other draws; of η² and of other numbers, over people"
QUICK = {"rows": 12, "background": 300, "draws": 8, "repeats": 2}
SYMMETRIC, RESTRICTED = (MARGINAL, CAUSAL), (people.OF_MARGINAL, people.BOTH)


def run(
    rows: int = 60,  # to explain, the first of them nearest to .5
    background: int = 2000,  # of which imputers are made
    draws: int = 24,  # completions of a coalition in one repeat
    repeats: int = 4,  # with other draws, two or more, for the errors
    seed: int = 0,
) -> dict[str, Any]:
    """Explain the same people in every way, and try what each way does with categories."""
    if repeats < 2 or rows < 2:
        raise ValueError(f"Expected 2 or more `repeats` and `rows` but got {repeats} and {rows}.")
    bench = people.Bench(rows, background, draws, repeats, seed)
    tried: dict[str, dict[str, Any]] = {}
    for way in IMPUTERS:
        tried[way] = bench.as_they_are(way) | bench.unlike(bench.imputer(way))
        if way in NUMBERED:
            both = (bench.numbered(way, turned) for turned in (False, True))
            tried[way] |= people_measures.moved(*both)
    tried[CAUSAL] = bench.unlike(bench.causal())
    found = bench.ways()
    return {
        "accuracy": bench.accuracy,
        "contradictions": bench.couples,
        "people": {name: bench.people[name].tolist() for name in COLUMNS},
        "base": found[MARGINAL].base[0, 1],
        "prediction": found[MARGINAL].prediction[:, 1],
        "tried": tried,
        "phi": {way: one.phi[..., 1] for way, one in found.items()},
        "standard_error": {way: one.standard_error[..., 1] for way, one in found.items()},
    }


def claims(found: Found) -> list[Claim]:
    four, made = (*SYMMETRIC, *RESTRICTED), []
    moved = [found["tried"][way]["moved by other numbers"] for way in NUMBERED[:2]]
    alone = max(found["tried"][way]["moved by draws alone"] for way in NUMBERED[:2])
    over = f"{SURELY:g} standard errors over {len(found['prediction'])} people"
    made.append(Claim(
        "categories as whole numbers of a Gaussian or a copula make no sense: other numbers for "
        f"the same categories move more than {HARDLY:.0%} of Σ|φ|", "Section 5.3.1 (left out)",
        " and ".join(f"{share:.1%} ± {error:.1%}" for share, error in moved)
        + f" (draws alone: {alone:.0%})",
        all(sure((share - HARDLY, error)) for share, error in moved),
        f"not both by {over}"))  # fmt: skip
    for ways, place, names in ((WAYS[:4], "5.5", "marginal, Gaussian, copula and empirical"),
                               (four, "5.6", "marginal, causal and both asymmetric")):  # fmt: skip
        most = people_measures.most_apart(found, ways, NUMBERS)
        made.append(Claim(
            f"values of numbers hardly differ between {names}: any two by less than {HARDLY:.0%}",
            f"Fig. {place}", f"{most:.0%}", most < HARDLY,
            "relationship and sex go with age and hours here"))  # fmt: skip
    parts = [people_measures.most_apart(found, four, some) for some in (CATEGORIES, NUMBERS)]
    made.append(Claim("these four differ more in categories than in numbers", "Fig. 5.6",
                      f"{parts[0]:.0%} against {parts[1]:.0%}", parts[0] > parts[1]))  # fmt: skip
    few = f"that is less than {over}"
    ahead = lead(found, (EMPIRICAL,), (MARGINAL,), "race")
    made.append(Claim("empirical values separate the category of several levels that comes first "
                      "(theirs APOE4, ours race) better than marginal ones", "Fig. 5.5",
                      f"η² larger by {cell(ahead)}", sure(ahead), few))  # fmt: skip
    means = [people_measures.by_sex(found, way) for way in (MARGINAL, EMPIRICAL)]
    made.append(Claim("one sex has negative and the other positive values, marginal and empirical",
                      "Fig. 5.5", " and ".join(f"{w:+.3f}, {m:+.3f}" for w, m in means),
                      all(w * m < 0 for w, m in means)))  # fmt: skip
    for name in FIRST:
        ahead = lead(found, RESTRICTED, SYMMETRIC, name)
        made.append(Claim(f"both asymmetric ways separate the categories of {name} better than "
                          "both symmetric ones", "Fig. 5.6",
                          f"smallest difference of η²: {cell(ahead)}",
                          sure(ahead), few))  # fmt: skip
    return made + claims_near_half(found, four)


def claims_near_half(found: Found, four: Sequence[str]) -> list[Claim]:
    """Of the person whose prediction is nearest to .5, whom Fig. 5.9 shows for these four ways."""
    phi = {way: torch.tensor(found["phi"][way][0]) for way in four}
    top = {way: int(one.abs().argmax()) for way, one in phi.items()}
    first = {way: (one.abs().max() / one.abs().sum()).item() for way, one in phi.items()}
    told = ", ".join(f"{COLUMNS[k]} {phi[way][k]:+.2f} ({way})" for way, k in top.items())
    small = {way: one.abs() < HARDLY * one.abs().max() for way, one in phi.items()}
    late = [name for k, name in enumerate(COLUMNS) if all(small[way][k] for way in SYMMETRIC)
            and not any(small[way][k] for way in RESTRICTED)]  # fmt: skip
    return [
        Claim("near .5, one feature contributes the most in all four ways, and raises it",
              "Fig. 5.9: FDG", told, len(set(top.values())) == 1
              and all(phi[way][k] > 0 for way, k in top.items())),
        Claim("near .5, next to nothing but that feature counts in the causal way: it has more "
              "than half of Σ|φ|", "Fig. 5.9", f"{first[CAUSAL]:.0%}", first[CAUSAL] > 0.5,
              "age and education count as well here"),
        Claim("near .5, a feature counts in both asymmetric ways and in neither symmetric one, by "
              f"{HARDLY:.0%} of the largest", "Fig. 5.9: PTAU", ", ".join(late) or "none",
              bool(late), "hours and occupation, which come last, do not stay out of the others"),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    facts: dict[str, Any] = {
        "accuracy, on people the model has not seen": found["accuracy"],
        "contradictions in the table": found["contradictions"],
    }
    for near, who in ((1.0, "all"), (people_measures.NEAR, "those within 0.1 of .5")):
        one, of = people_measures.agreeing(found, near)
        facts[f"people of {who} with one feature first in all seven ways"] = f"{one} of {of}"
    told = {way: {name: separation(found, way, name) for name in CATEGORIES}
            for way in found["phi"]}  # fmt: skip
    return [
        Table(["", "ours"], list(facts.items())),
        records("what becomes of categories", found["tried"]),
        records("η², how far categories are apart", told),
    ]


figures = people_measures.figures
