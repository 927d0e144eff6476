"""LB_STATUS_POLLING: the load balancer is the witness."""

from yaffle.drivers.detectors.load_balancer.driver import LoadBalancerDetector

__all__ = ["LoadBalancerDetector"]
