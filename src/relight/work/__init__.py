"""Agents at work: the agent loop, mixtures of agents, jobs and experiments."""
