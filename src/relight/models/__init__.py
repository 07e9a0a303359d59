"""One model call: endpoints, client, retries, offers. Nothing here knows the store."""
