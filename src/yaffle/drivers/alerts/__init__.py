"""Drivers that tell recovery controllers of failed hosts, one file each."""
