"""Where the tables and figures stand; docs/bibliography.md lists the same works."""

from __future__ import annotations

THESIS = "Weinberger 2007"
JOURNAL = "Weinberger and Saul 2009"
LECTURE = "Jebara's lecture"
MIN = "Min 2008"
QUERY = "Abou-Moustafa and Ferrie 2008"
