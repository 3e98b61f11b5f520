"""Appointments and their status machine."""
