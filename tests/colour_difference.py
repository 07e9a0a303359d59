"""Colours as people see them: CIEDE2000 differences, colour blindness, contrast."""

import math
from collections.abc import Sequence

Triple = tuple[float, float, float]
Matrix = tuple[Triple, Triple, Triple]

# linear sRGB to XYZ, and the white of D65
TO_XYZ: Matrix = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
WHITE: Triple = (0.95047, 1.0, 1.08883)
# linear sRGB as dichromats see it: Machado, Oliveira and Fernandes 2009, severity 1
VISIONS: dict[str, Matrix] = {
    "normal": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
FAR = 25.0**7


def read_linear(colour: str) -> Triple:
    """Return linear red, green and blue of a colour such as `#3d6fb4`."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return red, green, blue


def multiply(matrix: Matrix, vector: Sequence[float]) -> Triple:
    first, second, third = (
        sum(factor * value for factor, value in zip(row, vector, strict=True)) for row in matrix
    )
    return first, second, third


def see(colour: str, vision: str) -> Triple:
    """Return a colour in CIELAB as somebody with this vision sees it."""
    linear = [min(max(part, 0.0), 1.0) for part in multiply(VISIONS[vision], read_linear(colour))]
    xyz = multiply(TO_XYZ, linear)
    x, y, z = (_curve(part / white) for part, white in zip(xyz, WHITE, strict=True))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _curve(value: float) -> float:
    return math.cbrt(value) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116


def find_difference(one: Triple, other: Triple) -> float:
    """Return the CIEDE2000 difference of two colours in CIELAB."""
    (light1, a1, b1), (light2, a2, b2) = one, other
    mean_chroma = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * math.sqrt(mean_chroma**7 / (mean_chroma**7 + FAR))
    chroma1, chroma2 = math.hypot(stretch * a1, b1), math.hypot(stretch * a2, b2)
    hue1 = math.degrees(math.atan2(b1, stretch * a1)) % 360
    hue2 = math.degrees(math.atan2(b2, stretch * a2)) % 360
    turn = (hue2 - hue1 + 180) % 360 - 180 if chroma1 * chroma2 else 0.0
    mean_hue = hue1 + turn / 2 if chroma1 * chroma2 else hue1 + hue2
    light = (light1 + light2) / 2 - 50
    chroma = (chroma1 + chroma2) / 2
    weight = (
        1
        - 0.17 * _cos(mean_hue - 30)
        + 0.24 * _cos(2 * mean_hue)
        + 0.32 * _cos(3 * mean_hue + 6)
        - 0.20 * _cos(4 * mean_hue - 63)
    )
    by_light = (light2 - light1) / (1 + 0.015 * light**2 / math.sqrt(20 + light**2))
    by_chroma = (chroma2 - chroma1) / (1 + 0.045 * chroma)
    difference = 2 * math.sqrt(chroma1 * chroma2) * math.sin(math.radians(turn / 2))
    by_hue = difference / (1 + 0.015 * chroma * weight)
    # blues are turned: there hue and chroma are not independent
    angle = 30 * math.exp(-((((mean_hue % 360) - 275) / 25) ** 2))
    rotation = -2 * math.sqrt(chroma**7 / (chroma**7 + FAR)) * math.sin(math.radians(2 * angle))
    return math.sqrt(by_light**2 + by_chroma**2 + by_hue**2 + rotation * by_chroma * by_hue)


def _cos(degrees: float) -> float:
    return math.cos(math.radians(degrees))


def find_contrast(one: str, other: str) -> float:
    """Return the contrast of two colours by the rules of WCAG 2."""
    lights = [multiply(TO_XYZ, read_linear(colour))[1] for colour in (one, other)]
    return (max(lights) + 0.05) / (min(lights) + 0.05)
