# A package of its own: the wheel of gmqtt, which the tests use, brings one of that name, and a folder without this file
# would stand back behind it.
