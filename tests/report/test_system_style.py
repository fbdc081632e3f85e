from testbed.report.system_style import SystemStyle, series_styles


def test_the_default_is_the_first_variant_whatever_the_others_are_called():
    series = [("rina", "reading=agent"), ("rina", "reading=default")]
    found = series_styles(series, {"rina": SystemStyle("Rina", aggregates=True)})
    assert [style.title for style in found.values()] == ["Rina", "Rina (reading: agent)"]
    assert [style.line == "-" for style in found.values()] == [True, False]
