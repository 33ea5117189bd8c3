"""The supply chain: are all downloads locked, what is in the images, and which of it has known vulnerabilities."""
