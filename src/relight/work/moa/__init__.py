"""Mixtures of agents: several models advise, one acts."""
