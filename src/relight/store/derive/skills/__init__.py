"""Skills: facts given through the API, charges from sessions' records, and the uses of both."""
