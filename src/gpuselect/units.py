"""Conversion constants. Inside: bytes, seconds, flop, W, USD; names say what they convert from."""

from typing import Final

KB: Final = 1e3  # bytes
MB: Final = 1e6
GB: Final = 1e9
TB: Final = 1e12
PB: Final = 1e15
KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30
TIB: Final = 2**40

GFLOP: Final = 1e9  # flop
TFLOP: Final = 1e12
PFLOP: Final = 1e15

THOUSAND: Final = 1e3
MILLION: Final = 1e6
BILLION: Final = 1e9
TRILLION: Final = 1e12

MILLISECOND: Final = 1e-3  # seconds
MICROSECOND: Final = 1e-6
MINUTE: Final = 60.0
HOURS: Final = 3600.0
DAYS: Final = 86_400.0
WEEKS: Final = 7 * DAYS
YEARS: Final = 365.25 * DAYS
MONTHS: Final = YEARS / 12

HOURS_PER_YEAR: Final = YEARS / HOURS
HOURS_PER_MONTH: Final = MONTHS / HOURS

KILOWATT: Final = 1e3  # W
KWH: Final = 3.6e6  # J
BITS_PER_BYTE: Final = 8
