"""Options that are a name or an object."""


def named_option(option, value, names, base, example):
    """The object that an option means, checked.

    Parameters
    ----------
    option : str, its name
    value : a key of `names`, or an object
    names : dict of classes, whose objects with all defaults the names stand for
    base : class of all objects that will do
    example : str, of one

    Raises
    ------
    ValueError
        for an unknown name, an object of another kind, and options of the object that make no sense
    """
    if isinstance(value, str) and value in names:
        value = names[value]()
    if not isinstance(value, base):
        raise ValueError(f"{option} must be one of {tuple(names)}, or an object such as {example}, got {value!r}.")
    value.check()
    return value
