"""Figures of Lemaire et al. (2023), Tables 1-3, with the digits that they are printed with."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A line of Tables 1, 2 and 3; `spread` is what follows ± in Table 2."""

    label: str
    accuracy: float
    auc: float
    variables: int
    tau: float
    spread: float
    donors: int
    pearson: float
    kendall: float


PAPER = {
    "twonorm": Paper("Twonorm", 0.9766, 0.9969, 20, 0.9919, 8.71e-5, 200, 0.9027, 0.7052),
    "crx": Paper("Crx", 0.8112, 0.9149, 7, 0.9919, 4.28e-4, 690, 0.9953, 0.9047),
    "ionosphere": Paper("Ionosphere", 0.9619, 0.9621, 9, 0.8213, 1.76e-2, 351, 0.9974, 0.8888),
    "spam": Paper("Spam", 0.9328, 0.9791, 29, 0.9011, 2.66e-4, 200, 0.8829, 0.7684),
    "tictactoe": Paper("Tictactoe", 0.6713, 0.7383, 5, 1.0, 2.60e-4, 958, 1.0, 1.0),
    "german": Paper("German", 0.7090, 0.7112, 9, 0.9515, 1.01e-3, 1000, 0.9974, 0.9047),
    "telco": Paper("Telco", 0.8047, 0.8476, 10, 0.9210, 3.70e-3, 1000, 0.9633, 0.7333),
    "adult": Paper("Adult", 0.8657, 0.9216, 13, 0.8589, 6.57e-3, 1000, 0.8373, 0.7692),
    "krfcc": Paper("KRFCC", 0.9471, 0.8702, 3, 0.9931, 1.77e-3, 858, 0.9993, 1.0),
    "breast": Paper("Breast", 0.975, 0.9915, 8, 0.9222, 2.73e-3, 699, 0.9908, 0.8571),
}
MEASURES = {
    "tau": "Kendall, Shapley values and weight of evidence in a row (Table 2)",
    "pearson": "Pearson, mean |phi| exact and of KernelSHAP (Table 3)",
    "kendall": "Kendall, mean |phi| exact and of KernelSHAP (Table 3)",
}
