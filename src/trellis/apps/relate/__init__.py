"""Entities and relations."""
