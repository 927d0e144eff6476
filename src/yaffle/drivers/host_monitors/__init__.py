"""Drivers of `ports.HostMonitor`: who sees whether hosts live, one file each."""
