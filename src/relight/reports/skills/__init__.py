"""Skills: their uses, averages by model, and whether a cheaper model is good enough."""
