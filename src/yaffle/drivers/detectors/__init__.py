"""Drivers of `ports.Detector`: ask one question of many nodes, never judge."""
