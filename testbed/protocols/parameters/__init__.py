"""Parameters at servers, to which each worker's updates are added separately."""
