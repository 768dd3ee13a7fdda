"""Defaults of the cost model, each a cited figure of data/defaults.yaml."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from gpuselect.provenance import Figure

HOURS_PER_MONTH = 730.0
HOURS_PER_YEAR = 8760.0


class CostDefaults(BaseModel):
    """Defaults of data/defaults.yaml; an overlay overrides them.

    `low` and `high` of a figure are its 80 % interval in the uncertainty of a cost. What is None is not
    counted, and the answer says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    # place
    pue: Figure
    electricity_usd_kwh: Figure
    carbon_g_kwh: Figure
    # purchase
    server_factor: Figure
    network_share: Figure
    storage_usd_tb: Figure  # of parallel storage that is bought with the machines
    colocation_usd_kw_month: Figure
    value_kept_year: Figure  # share of its value that hardware keeps from one year to the next
    residual_share: Figure | None = None  # resale at the end, instead of the decline by year
    support_share_year: Figure | None = None  # of the purchase, a year
    # use
    training_power_share: Figure
    serving_power_share: Figure
    years: Figure
    utilization: Figure
    service_utilization: Figure
    cost_of_capital: Figure
    # spot
    interruptions_per_day: Figure
    checkpoint_min: Figure
    restart_min: Figure
    # services of a cloud, by provider
    storage_usd_gb_month: dict[str, Figure] = {}
    egress_usd_gb: dict[str, Figure] = {}

    def residual(self, years: float) -> float:
        """Share of the purchase that a resale after `years` brings."""
        if self.residual_share is not None:
            return float(self.residual_share)
        share: float = float(self.value_kept_year) ** years
        return share
