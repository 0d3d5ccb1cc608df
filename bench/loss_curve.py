# SPDX-License-Identifier: Apache-2.0
"""Curves of bits per byte over tokens as an SVG picture: the training text as a line, held-out text as points."""
import dataclasses
import html
import math

WIDTH, HEIGHT = 860, 460
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 48, 56  # margins of the plot
# A later curve lies over an earlier one: thinner and dashed, its points are rings around the earlier's.
STYLES = [{"colour": "#1f6fb4", "width": 3.0, "dash": "none", "radius": 4.0, "fill": "#1f6fb4"},
          {"colour": "#d9600a", "width": 1.2, "dash": "5 3", "radius": 7.0, "fill": "none"}]


@dataclasses.dataclass
class Curve:
    label: str
    training: list  # [(millions of tokens, bits per byte)]
    held_out: list  # the same


def tick_step(most):
    """1, 2 or 5 times a power of ten, for five to ten ticks."""
    power = 10 ** math.floor(math.log10(most / 5))
    return next(step * power for step in (1, 2, 5, 10) if most / (step * power) <= 10)


def ticks(most):
    step = tick_step(most)
    return [step * i for i in range(int(most / step + 1e-9) + 1)]


class Plot:
    def __init__(self, curves):
        points = [point for curve in curves for point in curve.training + curve.held_out]
        self.most_x = max(x for x, _ in points)
        self.most_y = max(y for _, y in points) * 1.05

    def x(self, value):
        return LEFT + value / self.most_x * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - value / self.most_y * (HEIGHT - TOP - BOTTOM)


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{html.escape(words)}</text>'


def axes(plot):
    parts = []
    for value in ticks(plot.most_y):
        y = plot.y(value)
        parts += [f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#e4e4e4"/>',
                  text(LEFT - 8, y + 4, f"{value:g}", "end")]
    for value in ticks(plot.most_x):
        x = plot.x(value)
        parts += [f'<line x1="{x:.1f}" y1="{HEIGHT - BOTTOM}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM + 5}" stroke="#555"/>',
                  text(x, HEIGHT - BOTTOM + 19, f"{value:g}")]
    middle = (TOP + HEIGHT - BOTTOM) / 2
    return parts + [f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#555"/>',
                    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "tokens trained on, millions"),
                    text(18, middle, "bits per byte", more=f'transform="rotate(-90 18 {middle:.1f})"')]


def line(points, style):
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return (f'<path d="{path}" fill="none" stroke="{style["colour"]}" stroke-width="{style["width"]}" '
            f'stroke-dasharray="{style["dash"]}" stroke-opacity="0.75"/>')


def dot(x, y, style):
    return (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{style["radius"]}" fill="{style["fill"]}" '
            f'stroke="{style["colour"]}" stroke-width="1.6"/>')


def legend(curves):
    """At the top right, where curves that fall are not."""
    parts, x, y = [], WIDTH - 500, TOP + 16
    for curve, style in zip(curves, STYLES):
        words = f"{curve.label}; held out {curve.held_out[-1][1]:.3f} at the end"
        parts += [line([(x, y), (x + 40, y)], style), dot(x + 20, y, style), text(x + 50, y + 4, words, "start")]
        y += 24
    return parts + [text(x + 50, y + 2, "lines: training text; points: held-out text", "start", 'fill="#666"')]


def draw(title, curves):
    """The text of the SVG file; at most as many curves as there are STYLES."""
    plot = Plot(curves)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" '
             f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
             f'font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#222">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
             text(LEFT, 26, title, "start", 'font-size="16" font-weight="bold"'), *axes(plot)]
    for curve, style in zip(curves, STYLES):
        parts.append(line([(plot.x(x), plot.y(y)) for x, y in curve.training], style))
        parts += [dot(plot.x(x), plot.y(y), style) for x, y in curve.held_out]
    return "\n".join(parts + legend(curves) + ["</svg>"]) + "\n"
