"""Parameters at servers, which workers update without a sum of everyone's."""
