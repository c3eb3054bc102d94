"""Whether tensors are traced as proxies, of packages that ask: they never are."""

__all__ = ["get_proxy_mode"]


def get_proxy_mode() -> None:
    """None: tensors that stand for values of a graph are weft's own, and take no mode.

    >>> weft.fx.experimental.proxy_tensor.get_proxy_mode()
    """
