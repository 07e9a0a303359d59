"""One model call: endpoints, client, retries, offers. Nothing here uses the store."""
